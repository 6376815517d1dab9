package io.leafd;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * Draws document numbers of a series, or of one of its tenants, such as {@code INV-2026-000123}. Created by
 * {@link LeafdClient#series}. Instances are immutable and thread-safe.
 *
 * <p>Each call draws directly from the daemon, which uses the store's clock to decide which period a number belongs to.
 *
 * <p>Calls throw {@link LeafdException.Refused} with the status {@link Status#TAG_UNKNOWN} if there is no such series,
 * {@link Status#VALUE_REFUSED} for a tenant that the series can't have, and {@link Status#STORE_UNAVAILABLE} during a store
 * outage if the daemon doesn't know the period or holds no numbers for it.
 */
public final class Series {
    private final LeafdClient client;
    private final Requests requests;
    private final String name;
    private final String tenant;
    private final byte[] nameBytes;
    private final Deadline.Limit limit;

    Series(LeafdClient client, Requests requests, String name, String tenant, Deadline.Limit limit) {
        this.client = client;
        this.requests = requests;
        this.name = name;
        this.tenant = Argument.given(tenant, "a tenant");
        nameBytes = Wire.tagBytes(tenant.isEmpty() ? name : name + "/" + tenant);
        this.limit = limit;
    }

    /**
     * Returns a handle for a tenant of the series.
     *
     * @param tenant letters and digits, in upper or lower case
     * @return a new object with the change
     */
    public Series tenant(String tenant) {
        return new Series(client, requests, name, tenant, limit);
    }

    /**
     * Returns a handle with another time limit for each call.
     *
     * @param within see {@link LeafdClient.Builder#deadline}; it applies to all requests of a call together
     * @return a new object with the change
     */
    public Series within(Duration within) {
        return new Series(client, requests, name, tenant, Deadline.Limit.of(within));
    }

    /**
     * Draws the next number.
     *
     * @return the number
     * @throws LeafdException if the call fails
     */
    public String next() {
        return next(1).get(0);
    }

    /**
     * Draws several numbers. They may span two periods.
     *
     * @param count the number of document numbers, from 0; each thousand takes one request
     * @return the numbers, in the order of issue
     * @throws IllegalArgumentException if the count is negative
     * @throws LeafdException if the call fails; numbers that were drawn before the failure are skipped
     */
    public List<String> next(int count) {
        if (count < 0) {
            throw new IllegalArgumentException("a count of numbers is from 0, not " + count);
        }
        Deadline deadline = Deadline.after(limit);
        List<String> numbers = new ArrayList<>(Math.min(count, Wire.NUMBERS_MAX));
        while (numbers.size() < count) {
            int asked = Math.min(count - numbers.size(), Wire.NUMBERS_MAX);
            numbers.addAll(List.of(requests.numbers(nameBytes, asked, deadline)));
        }
        return numbers;
    }

    @Override
    public String toString() {
        return "Series[" + name + (tenant.isEmpty() ? "" : ", tenant " + tenant) + " at " + client.socketPath() + "]";
    }
}
