package io.leafd;

import java.util.Map;

/**
 * What the daemon says of itself.
 *
 * @param version the protocol version that both sides speak
 * @param segmentsReady whether ids of segment tags can be had now
 * @param snowflakeReady whether snowflake ids can be had now
 * @param countMax most ids in one request
 * @param deadlineMsMax longest deadline that the daemon honours, in milliseconds
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
