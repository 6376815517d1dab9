package com.sankuai.inf.leaf.common;

/** An id or a negative code of what went wrong, as Leaf has it. */
public class Result {
    private long id;
    private Status status;

    /** Nothing yet. */
    public Result() {}

    /**
     * What a call came to.
     *
     * @param id an id, or a negative code
     * @param status which of the two
     */
    public Result(long id, Status status) {
        this.id = id;
        this.status = status;
    }

    /**
     * The id.
     *
     * @return a code of what went wrong, if the status says so
     */
    public long getId() {
        return id;
    }

    /**
     * Sets the id.
     *
     * @param id an id, or a negative code
     */
    public void setId(long id) {
        this.id = id;
    }

    /**
     * Whether there is an id.
     *
     * @return what the id is
     */
    public Status getStatus() {
        return status;
    }

    /**
     * Sets the status.
     *
     * @param status what the id is
     */
    public void setStatus(Status status) {
        this.status = status;
    }

    @Override
    public String toString() {
        return "Result{id=" + id + ", status=" + status + "}";
    }
}
