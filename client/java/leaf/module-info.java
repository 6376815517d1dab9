/**
 * Leaf's {@code IDGen} on leafd, for services that embedded Leaf. It contains {@code IDGen} and its results under
 * Leaf's names.
 */
module io.leafd.leaf {
    requires transitive io.leafd;

    exports io.leafd.leaf;
    exports com.sankuai.inf.leaf;
    exports com.sankuai.inf.leaf.common;
}
