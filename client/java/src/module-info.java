/** The client of leafd, the daemon on this host that issues unique 64-bit ids. It requires only the JDK's base module. */
module io.leafd {
    exports io.leafd;
}
