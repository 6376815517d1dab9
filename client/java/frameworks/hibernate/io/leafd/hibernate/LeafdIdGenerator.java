package io.leafd.hibernate;

import io.leafd.IdSource;
import io.leafd.LeafdClient;
import io.leafd.LeafdException;
import java.lang.reflect.Member;
import java.util.EnumSet;
import org.hibernate.engine.config.spi.ConfigurationService;
import org.hibernate.engine.spi.SharedSessionContractImplementor;
import org.hibernate.generator.AnnotationBasedGenerator;
import org.hibernate.generator.BeforeExecutionGenerator;
import org.hibernate.generator.EventType;
import org.hibernate.generator.EventTypeSets;
import org.hibernate.generator.GeneratorCreationContext;
import org.hibernate.id.IdentifierGenerationException;

/**
 * Assigns leafd's ids to entities whose id is annotated with {@link LeafdId}. Ids are assigned when the entity is persisted,
 * so inserts can be batched.
 */
public final class LeafdIdGenerator implements BeforeExecutionGenerator, AnnotationBasedGenerator<LeafdId> {
    /**
     * The Hibernate property whose value is the {@link IdSource}: a client with its own options, or a fake in tests. Without
     * it, all generators share one client of this host's daemon.
     */
    public static final String IDS = "leafd.ids";

    private static final long serialVersionUID = 1;

    private String tag;
    private transient IdSource ids;

    /** Connects on first use, so that the schema can be created without a daemon. */
    private static final class Shared {
        static final LeafdClient CLIENT = LeafdClient.builder().build();
    }

    /** Called by Hibernate. */
    public LeafdIdGenerator() {}

    @Override
    public void initialize(LeafdId annotation, Member member, GeneratorCreationContext context) {
        tag = annotation.value();
        Object configured = context.getServiceRegistry().requireService(ConfigurationService.class).getSettings().get(IDS);
        ids = configured == null ? Shared.CLIENT : (IdSource) configured;
    }

    @Override
    public Object generate(SharedSessionContractImplementor session, Object owner, Object current, EventType event) {
        try {
            return ids.nextId(tag);
        } catch (LeafdException e) {
            throw new IdentifierGenerationException("no id of tag \"" + tag + "\": " + e.getMessage(), e);
        }
    }

    @Override
    public EnumSet<EventType> getEventTypes() {
        return EventTypeSets.INSERT_ONLY;
    }
}
