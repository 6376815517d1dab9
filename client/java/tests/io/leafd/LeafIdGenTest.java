package io.leafd;

import com.sankuai.inf.leaf.IDGen;
import com.sankuai.inf.leaf.common.Result;
import io.leafd.leaf.LeafdIDGen;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Tests Leaf's interface, as used by a service that embedded Leaf. */
final class LeafIdGenTest {
    private static final com.sankuai.inf.leaf.common.Status SUCCESS = com.sankuai.inf.leaf.common.Status.SUCCESS;
    private static final com.sankuai.inf.leaf.common.Status EXCEPTION = com.sankuai.inf.leaf.common.Status.EXCEPTION;

    private LeafIdGenTest() {}

    static void idsOfBothKindsComeInLeafsResults() throws Exception {
        try (Host host = Host.serving();
                LeafdIDGen closing = new LeafdIDGen(host.client());
                LeafdIDGen snowflakes = LeafdIDGen.snowflake(host.client())) {
            IDGen segments = closing;
            Check.that(segments.init() && snowflakes.init(), "ids are available");
            List<long[]> ids = new ArrayList<>();
            for (int number = 0; number < 1000; number++) {
                Result result = segments.get("orders");
                Check.equal(SUCCESS, result.getStatus());
                ids.add(new long[] {result.getId()});
                // Leaf's snowflake generator ignores its key.
                Result snowflake = snowflakes.get("any key");
                Check.equal(SUCCESS, snowflake.getStatus());
                ids.add(new long[] {snowflake.getId()});
            }
            Check.unique(2000, ids);
        }
    }

    static void failuresAreLeafsCodesAndTellTheirCause() throws Exception {
        try (Host host = Host.serving()) {
            LeafdIDGen patient = new LeafdIDGen(host.client());
            for (String key : new String[] {"nosuch", "", null}) {
                failed(LeafdIDGen.NO_SUCH_KEY, patient.get(key));
            }
            patient.close();
            failed(LeafdIDGen.NO_ID, patient.get("orders"));
            host.stop();
            LeafdIDGen segments = new LeafdIDGen(
                    LeafdClient.builder().socket(host.socket()).deadline(Duration.ofMillis(100)).build());
            failed(LeafdIDGen.NOT_READY, segments.get("orders"));
            Check.that(!segments.init(), "no ids are available");
            segments.close();
        }
        try (Stranger stranger = new Stranger();
                LeafdIDGen segments = new LeafdIDGen(stranger.builder().build())) {
            stranger.answer = request -> Stranger.refusal(request, Status.STORE_UNAVAILABLE.number(), "the store is unavailable");
            Result result = segments.get("orders");
            failed(LeafdIDGen.NO_ID, result);
            Check.that(result.toString().contains("the store is unavailable"), result.toString());
        }
    }

    private static void failed(long code, Result result) {
        Check.equal(EXCEPTION, result.getStatus());
        Check.equal(code, result.getId());
        Check.that(((LeafdIDGen.Failure) result).getCause() != null, "the failure has a cause");
    }
}
