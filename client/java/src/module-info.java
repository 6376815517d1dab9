/** The client of leafd, the host's daemon that gives out unique 64-bit ids. It needs the JDK's base module alone. */
module io.leafd {
    exports io.leafd;
    exports com.sankuai.inf.leaf;
    exports com.sankuai.inf.leaf.common;
}
