package io.leafd.spring;

import io.leafd.DaemonInfo;
import io.leafd.IdSource;
import io.leafd.LeafdClient;
import java.nio.file.Path;
import java.time.Duration;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Provides a {@link LeafdClient} bean, unless there is an {@link IdSource} bean, and a health indicator {@code leafd}. */
@AutoConfiguration
@EnableConfigurationProperties(LeafdAutoConfiguration.Properties.class)
public class LeafdAutoConfiguration {
    /** Called by Spring. */
    public LeafdAutoConfiguration() {}

    /**
     * The properties {@code leafd.*}.
     *
     * @param socket where the daemon listens; by default {@code $LEAFD_SOCKET}, then this user's daemon, then the system's
     * @param deadline how long a call may take, from 0; capped at 60 s
     * @param waitForDaemon how long calls wait for a daemon that has not started yet, before their deadline starts, from
     *         0; capped at one hour
     */
    @ConfigurationProperties("leafd")
    public record Properties(
            Path socket, @DefaultValue("2s") Duration deadline, @DefaultValue("0s") Duration waitForDaemon) {}

    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean(IdSource.class)
    LeafdClient leafd(Properties properties) {
        LeafdClient.Builder builder = LeafdClient.builder().deadline(properties.deadline()).waitForDaemon(properties.waitForDaemon());
        return (properties.socket() == null ? builder : builder.socket(properties.socket())).build();
    }

    /** The health indicator of Spring Boot 3. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "org.springframework.boot.actuate.health.HealthIndicator")
    static class HealthOfBoot3 {
        @Bean
        org.springframework.boot.actuate.health.HealthIndicator leafdHealthIndicator(IdSource leafd) {
            return () -> {
                try {
                    DaemonInfo info = leafd.info();
                    return new org.springframework.boot.actuate.health.Health.Builder()
                            .status(info.segmentsReady() || info.snowflakeReady() ? "UP" : "OUT_OF_SERVICE")
                            .withDetail("segmentsReady", info.segmentsReady())
                            .withDetail("snowflakeReady", info.snowflakeReady())
                            .build();
                } catch (RuntimeException e) {
                    return org.springframework.boot.actuate.health.Health.down(e).build();
                }
            };
        }
    }

    /** The health indicator of Spring Boot 4, whose types moved. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "org.springframework.boot.health.contributor.HealthIndicator")
    static class HealthOfBoot4 {
        @Bean
        org.springframework.boot.health.contributor.HealthIndicator leafdHealthIndicator(IdSource leafd) {
            return () -> {
                try {
                    DaemonInfo info = leafd.info();
                    return new org.springframework.boot.health.contributor.Health.Builder()
                            .status(info.segmentsReady() || info.snowflakeReady() ? "UP" : "OUT_OF_SERVICE")
                            .withDetail("segmentsReady", info.segmentsReady())
                            .withDetail("snowflakeReady", info.snowflakeReady())
                            .build();
                } catch (RuntimeException e) {
                    return org.springframework.boot.health.contributor.Health.down(e).build();
                }
            };
        }
    }
}
