package com.sankuai.inf.leaf.common;

/** What became of a call, as Leaf has it. */
public enum Status {
    /** There is an id. */
    SUCCESS,
    /** There is none. */
    EXCEPTION
}
