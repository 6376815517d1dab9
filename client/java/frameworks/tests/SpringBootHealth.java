import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;

/** Prints what the health indicator reports. Its interface is in different packages in Spring Boot 3 and 4. */
@EnableAutoConfiguration
public class SpringBootHealth {
    public static void main(String[] args) throws Exception {
        System.setProperty("spring.datasource.url", System.getenv("JDBC_URL"));
        try (var application = SpringApplication.run(SpringBootHealth.class, args)) {
            Object indicator = application.getBean("leafdHealthIndicator");
            var method = indicator.getClass().getMethod("health");
            method.setAccessible(true);
            System.out.println("health " + method.invoke(indicator));
        }
    }
}
