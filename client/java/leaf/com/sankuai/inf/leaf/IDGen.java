package com.sankuai.inf.leaf;

import com.sankuai.inf.leaf.common.Result;

/** What a service that embeds Leaf draws ids by: of Leaf's own name and shape, so that its code stays as it is. */
public interface IDGen {
    /**
     * The next id of a key.
     *
     * @param key a tag
     * @return the id, or why there is none
     */
    Result get(String key);

    /**
     * Makes ready, once.
     *
     * @return whether ids can be had
     */
    boolean init();
}
