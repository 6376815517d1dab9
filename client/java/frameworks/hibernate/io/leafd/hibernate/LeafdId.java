package io.leafd.hibernate;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.hibernate.annotations.IdGeneratorType;

/** Marks an entity's {@code @Id} whose values are ids of a tag. */
@IdGeneratorType(LeafdIdGenerator.class)
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.FIELD, ElementType.METHOD})
public @interface LeafdId {
    /**
     * The tag.
     *
     * @return a segment tag, or a snowflake layout's name
     */
    String value();
}
