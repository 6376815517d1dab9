/** Leaf's {@code IDGen} on leafd, for services that embedded Leaf. */
package io.leafd.leaf;
