package com.sankuai.inf.leaf;

import com.sankuai.inf.leaf.common.Result;

/** Leaf's interface for drawing ids, under its original name, so that services that embedded Leaf need no other imports. */
public interface IDGen {
    /**
     * Draws the next id of a key.
     *
     * @param key the name of a tag
     * @return the id, or the negative code of a failure
     */
    Result get(String key);

    /**
     * Prepares the generator. Call it once, before drawing ids.
     *
     * @return whether ids are available
     */
    boolean init();
}
