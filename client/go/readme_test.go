package leafd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedCodeCompiles compiles the Go code of the READMEs and the guide. A block that is not a whole file
// consists of statements, and a context is available to them.
func TestDocumentedCodeCompiles(t *testing.T) {
	blocks, found := regexp.MustCompile("(?s)```go\n(.*?)```"), 0
	for _, page := range []string{"client/go/README.md", "README.md", "docs/guide/clients.md", "docs/guide/document-numbers.md",
		"docs/guide/public-ids.md"} {
		text, err := os.ReadFile(filepath.Join(root(t), page))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks.FindAllStringSubmatch(string(text), -1) {
			found++
			folder := t.TempDir()
			write(t, folder, "go.mod", "module documented\n\ngo 1.21\n\nrequire leafd.io/leafd v0.0.0\n\nreplace leafd.io/leafd => "+
				filepath.Join(root(t), "client/go")+"\n")
			write(t, folder, "documented.go", whole(block[1]))
			build := exec.Command("go", "build", "-o", os.DevNull, ".")
			build.Dir = folder
			if said, err := build.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", page, err, said)
			}
		}
	}
	if found < 8 {
		t.Fatalf("only %d blocks were found", found)
	}
}

var declared = regexp.MustCompile(`(\w+), err :?= `)

func whole(block string) string {
	if strings.HasPrefix(block, "package ") {
		return block
	}
	client := ", client *leafd.Client"
	if strings.Contains(block, "leafd.New") {
		client = ""
	}
	used := "_ = err"
	for _, name := range declared.FindAllStringSubmatch(block, -1) {
		used += "\n_ = " + name[1]
	}
	return "package documented\n\nimport (\n\"context\"\n\"leafd.io/leafd\"\n)\n\nvar _ leafd.Options\n\nfunc run(ctx context.Context" +
		client + ") {\n" + block + used + "\n}\n"
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
