package io.leafd;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads the JSON that the file of vectors uses: maps, lists, text, whole numbers, booleans and null. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.skipSpace();
        Check.that(json.at == text.length(), "JSON continues at " + json.at);
        return value;
    }

    private Object value() {
        skipSpace();
        switch (text.charAt(at)) {
            case '{':
                return object();
            case '[':
                return list();
            case '"':
                return string();
            default:
                int begin = at;
                while (at < text.length() && "+-.0123456789aeflnrstu".indexOf(text.charAt(at)) >= 0) {
                    at++;
                }
                String word = text.substring(begin, at);
                return switch (word) {
                    case "true" -> true;
                    case "false" -> false;
                    case "null" -> null;
                    default -> new BigInteger(word).longValueExact();
                };
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> members = new LinkedHashMap<>();
        at++;
        while (!ends('}')) {
            String name = string();
            expect(':');
            Check.that(members.put(name, value()) == null, name + " comes twice");
        }
        return members;
    }

    private List<Object> list() {
        List<Object> values = new ArrayList<>();
        at++;
        while (!ends(']')) {
            values.add(value());
        }
        return values;
    }

    private String string() {
        StringBuilder read = new StringBuilder();
        expect('"');
        while (text.charAt(at) != '"') {
            char character = text.charAt(at++);
            if (character != '\\') {
                read.append(character);
                continue;
            }
            char escaped = text.charAt(at++);
            switch (escaped) {
                case 'n' -> read.append('\n');
                case 't' -> read.append('\t');
                case 'u' -> {
                    read.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                }
                default -> read.append(escaped);
            }
        }
        at++;
        return read.toString();
    }

    /** Skips a comma between two values, and returns whether the list or map ends here. */
    private boolean ends(char end) {
        skipSpace();
        if (text.charAt(at) == ',') {
            at++;
            skipSpace();
        }
        if (text.charAt(at) == end) {
            at++;
            return true;
        }
        return false;
    }

    private void expect(char character) {
        skipSpace();
        Check.that(text.charAt(at) == character, "JSON has " + text.charAt(at) + " at " + at + ", not " + character);
        at++;
    }

    private void skipSpace() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
    }
}
