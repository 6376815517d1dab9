/** Leaf's {@code IDGen}, backed by leafd, for services that embedded Leaf. */
package io.leafd.leaf;
