/**
 * Unique 64-bit ids from the leafd daemon of this host.
 *
 * <pre>{@code
 * LeafdClient leafd = LeafdClient.connect();
 * long orderId = leafd.nextId("orders");
 * }</pre>
 *
 * <p>The parts, from the caller to the socket:
 *
 * <ul>
 *   <li>{@link io.leafd.LeafdClient}, {@link io.leafd.LeafdTag}, {@link io.leafd.PublicIds}: the public calls, and
 *       {@link io.leafd.IdSource} with its fake;
 *   <li>{@code Supply}, {@code HeldRun}, {@code Sizing}: the held runs, and where the next one comes from;
 *   <li>{@code Requests}: a request with its deadline and its retries;
 *   <li>{@code Link}, {@code Connection}, {@code Pending}, {@code Polling}: the one connection that threads share;
 *   <li>{@code Wire}, {@code Socket}: bytes.
 * </ul>
 */
package io.leafd;
