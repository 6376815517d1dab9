/**
 * Unique 64-bit ids from the leafd daemon of this host.
 *
 * <pre>{@code
 * LeafdClient leafd = LeafdClient.connect();
 * long orderId = leafd.nextId("orders");
 * }</pre>
 *
 * <p>The way of a call, from the caller to the socket:
 *
 * <ul>
 *   <li>{@code LeafdClient}, {@code LeafdTag}: what can be asked;
 *   <li>{@code Supply}, {@code HeldRun}, {@code Sizing}: the held runs, and where the next one comes from;
 *   <li>{@code Requests}: a request with its deadline and its retries;
 *   <li>{@code Link}, {@code Connection}, {@code Pending}, {@code Polling}: the one connection that threads share;
 *   <li>{@code Wire}, {@code Frames}: bytes.
 * </ul>
 */
package io.leafd;
