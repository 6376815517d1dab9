package com.sankuai.inf.leaf.common;

/** The result of a call: an id, or a negative code for a failure. */
public class Result {
    private long id;
    private Status status;

    /** Creates an empty result. */
    public Result() {}

    /**
     * Creates a result.
     *
     * @param id an id, or the negative code of a failure
     * @param status whether it is an id
     */
    public Result(long id, Status status) {
        this.id = id;
        this.status = status;
    }

    /**
     * Returns the id.
     *
     * @return the id, or the code of a failure if the status is {@link Status#EXCEPTION}
     */
    public long getId() {
        return id;
    }

    /**
     * Sets the id.
     *
     * @param id an id, or the negative code of a failure
     */
    public void setId(long id) {
        this.id = id;
    }

    /**
     * Returns the outcome of the call.
     *
     * @return whether the call returned an id
     */
    public Status getStatus() {
        return status;
    }

    /**
     * Sets the status.
     *
     * @param status whether the call returned an id
     */
    public void setStatus(Status status) {
        this.status = status;
    }

    @Override
    public String toString() {
        return "Result{id=" + id + ", status=" + status + "}";
    }
}
