package io.leafd;

import java.io.StringWriter;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;

/** Compiles the Java code of the client's README, the project's README and the guide unchanged. */
final class ReadmeTest {
    private static final Pattern BLOCK = Pattern.compile("```java\\n(.*?)```", Pattern.DOTALL);
    private static final Pattern CLASS = Pattern.compile("^(?:public )?(?:class|@interface) (\\w+)", Pattern.MULTILINE);

    /** Stubs of the bean's annotations, because Spring is not a dependency of the tests. */
    private static final List<String> SPRING = List.of(
            "package org.springframework.context.annotation; public @interface Configuration {}",
            "package org.springframework.context.annotation; public @interface Bean { String destroyMethod(); }",
            "package org.springframework.beans.factory.annotation; public @interface Value { String value(); }");

    private ReadmeTest() {}

    static void itsCodeCompiles() throws Exception {
        List<String> sources = new ArrayList<>(SPRING);
        Matcher blocks = BLOCK.matcher(Files.readString(Host.ROOT.resolve("client/java/README.md")));
        while (blocks.find()) {
            sources.add(blocks.group(1));
        }
        sources.add(Files.readString(Host.ROOT.resolve("client/java/examples/DrawIds.java")));
        Check.that(sources.size() >= SPRING.size() + 5, "only " + sources.size() + " sources were found");
        for (String page : List.of(
                "README.md", "docs/guide/clients.md", "docs/guide/document-numbers.md", "docs/guide/public-ids.md")) {
            Matcher shown = BLOCK.matcher(Files.readString(Host.ROOT.resolve(page)));
            Check.that(shown.find(), "no Java in " + page);
            String name = "Shown" + sources.size();
            // Later pages continue to use the client that the first ones created.
            boolean begins = shown.group(1).contains("LeafdClient leafd =");
            sources.add("import io.leafd.*;\nimport java.util.List;\nclass " + name + " {\n void run("
                    + (begins ? "" : "LeafdClient leafd") + ") {\n" + shown.group(1) + "\n}}");
        }
        Path classes = Files.createTempDirectory("leafd-readme-");
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StringWriter said = new StringWriter();
        List<String> options = List.of(
                "--release", "17", "-Xlint:all,-try", "-Werror", "-proc:none", "-d", classes.toString(),
                "-cp", System.getProperty("java.class.path"));
        List<JavaFileObject> files = sources.stream().map(ReadmeTest::file).toList();
        boolean compiled = compiler.getTask(said, null, null, options, null, files).call();
        Check.that(compiled, said.toString());
        try (var made = Files.walk(classes)) {
            made.sorted(java.util.Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        }
    }

    private static JavaFileObject file(String source) {
        // The stubs declare each annotation on one line.
        Matcher named = CLASS.matcher(source.replace("; public @interface", ";\n@interface"));
        Check.that(named.find(), "no class in: " + source);
        URI name = URI.create(String.format(Locale.ROOT, "string:///%s.java", named.group(1)));
        return new SimpleJavaFileObject(name, JavaFileObject.Kind.SOURCE) {
            @Override
            public CharSequence getCharContent(boolean ignoreErrors) {
                return source;
            }
        };
    }
}
