package io.leafd;

import java.util.Map;

/**
 * What the daemon reports about itself.
 *
 * @param version the protocol version that both sides speak
 * @param segmentsReady whether ids of segment tags are available now
 * @param snowflakeReady whether snowflake ids are available now
 * @param countMax the maximum number of ids in one request
 * @param deadlineMsMax the longest deadline that the daemon honours, in milliseconds
 * @param pid the daemon's process id, in the daemon's own process namespace
 * @param release the daemon's release, such as {@code 0.1.0}
 * @param layouts the snowflake layouts, by the tag name under which their ids are drawn
 */
public record DaemonInfo(
        int version,
        boolean segmentsReady,
        boolean snowflakeReady,
        long countMax,
        long deadlineMsMax,
        long pid,
        String release,
        Map<String, Layout> layouts) {
    /** Keeps a copy of the layouts. */
    public DaemonInfo {
        layouts = Map.copyOf(layouts);
    }
}
