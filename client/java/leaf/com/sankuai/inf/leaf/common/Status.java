package com.sankuai.inf.leaf.common;

/** The outcome of a call. */
public enum Status {
    /** The call returned an id. */
    SUCCESS,
    /** The call failed. */
    EXCEPTION
}
