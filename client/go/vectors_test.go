package leafd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// vectors is the part of protocol-vectors.json that this client implements.
type vectors struct {
	Vectors, Replies, Masked, Series []vector
}

type vector struct {
	Name, Send, Expect, Bytes string
	Closes                    bool
	Request                   *vectorRequest
	Asked                     *vectorRequest
	Reply                     *vectorReply
}

type vectorRequest struct {
	Message                string
	RequestID              uint32 `json:"request_id"`
	Hold                   bool
	Count                  int
	DeadlineMs             uint32 `json:"deadline_ms"`
	Tag, Prefix            string
	Series, Tenant         string
	VersionMin, VersionMax uint16
	Bits, Key              uint8
	IDs                    []int64
	Texts                  []string
}

type vectorReply struct {
	Kind         string
	RequestID    uint32 `json:"request_id"`
	HoldMs       int64  `json:"hold_ms"`
	Runs         []struct{ First, Count, Stride int64 }
	Total        int64
	Status       string
	Number       *uint16
	Text         *string
	RetryAfterMs int64 `json:"retry_after_ms"`
	IDs          []int64
	Texts        []string
}

func readVectors(t *testing.T) (all vectors) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "protocol-vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	// Members of other messages may have other types, which don't matter here.
	var mistyped *json.UnmarshalTypeError
	if err := json.Unmarshal(text, &all); err != nil && !asType(err, &mistyped) {
		t.Fatal(err)
	}
	return all
}

func asType(err error, target **json.UnmarshalTypeError) bool {
	mistyped, ok := err.(*json.UnmarshalTypeError)
	*target = mistyped
	return ok
}

// words splits a text into bytes in hexadecimal digits; | only makes it readable.
func words(text string) []string {
	return strings.Fields(strings.ReplaceAll(text, "|", " "))
}

func (v vector) bytes(t *testing.T, text string) []byte {
	t.Helper()
	var all []byte
	for _, word := range words(text) {
		number, err := strconv.ParseUint(word, 16, 8)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		all = append(all, byte(number))
	}
	return all
}

func TestTheCodecWritesTheVectorsRequests(t *testing.T) {
	all, written := readVectors(t), 0
	for _, v := range append(append(all.Vectors, all.Masked...), all.Series...) {
		if v.Request == nil {
			continue
		}
		r, made := v.Request, []byte(nil)
		switch r.Message {
		case "IDS":
			made = idsRequest(r.Hold, r.Count, r.DeadlineMs, r.Tag)
		case "INFO":
			sent := v.bytes(t, v.Send)
			made = infoRequest(le.Uint16(sent[12:]), le.Uint16(sent[14:]))
		case "MASK", "UNMASK":
			made = maskVector(v)
		case "SERIES_NEXT":
			made = seriesRequest(r.Count, r.DeadlineMs, r.Series, r.Tenant)
		default:
			continue
		}
		le.PutUint32(made[8:], r.RequestID)
		if !bytes.Equal(made, v.bytes(t, v.Send)) {
			t.Errorf("%s: % x", v.Name, made)
		}
		written++
	}
	if written < 20 {
		t.Fatalf("only %d were written", written)
	}
}

func maskVector(v vector) []byte {
	r := v.Request
	opcode, text := byte(opMask), len(r.Texts) > 0 || r.Prefix != ""
	if r.Message == "UNMASK" {
		opcode = opUnmask
	}
	all := items(r.IDs)
	for _, text := range r.Texts {
		all = append(all, string([]byte{byte(len(text))})+text)
	}
	return maskRequest(opcode, text, PublicForm{r.Prefix, r.Bits, r.Key}, r.Tag, all)
}

func TestTheCodecReadsTheVectorsReplies(t *testing.T) {
	replies := readVectors(t).Replies
	if len(replies) < 15 {
		t.Fatalf("only %d were found", len(replies))
	}
	for _, v := range replies {
		checkReply(t, v, v.Asked, v.bytes(t, v.Bytes))
	}
}

// checkReply reads the reply to a request.
func checkReply(t *testing.T, v vector, request *vectorRequest, frame []byte) {
	t.Helper()
	status, _, id, body, err := readReply(bytes.NewReader(frame))
	if err != nil || len(body) != len(frame)-headerBytes || id != v.Reply.RequestID {
		t.Errorf("%s: %v, %d bytes for request %d", v.Name, err, len(body), id)
		return
	}
	want := v.Reply
	switch want.Kind {
	case "ids":
		total, runs := want.Total, []run(nil)
		for _, r := range want.Runs {
			total += r.Count
			runs = append(runs, run{r.First, r.Count, r.Stride})
		}
		count, hold := int(total), false
		if request != nil {
			count, hold = request.Count, request.Hold
		}
		got, held, err := readIDs(body, count, hold)
		if err != nil || held.Milliseconds() != want.HoldMs {
			t.Errorf("%s: %v, %v", v.Name, err, held)
		}
		if runs != nil && fmt.Sprint(runs) != fmt.Sprint(got) {
			t.Errorf("%s: %v", v.Name, got)
		}
	case "broken":
		if got, _, err := readIDs(body, request.Count, request.Hold); err == nil {
			t.Errorf("%s: it was read as %+v", v.Name, got)
		}
	case "failure":
		refusal := wantIs(t, readRefusal(status, body), status, status.Retryable(), status == StatusDeadline)
		known := status
		if int(status) >= len(statusNames) {
			known = StatusInternal
		}
		if known.String() != want.Status || want.Number != nil && *want.Number != uint16(status) || len(refusal.Message) < 5 {
			t.Errorf("%s: %v", v.Name, refusal)
		}
		if want.Text != nil && (*want.Text != refusal.Message || want.RetryAfterMs != refusal.RetryAfter.Milliseconds()) {
			t.Errorf("%s: %+v", v.Name, refusal)
		}
	case "info":
		info, err := readInfo(body)
		leaf, ok := info.Layouts["snowflake"]
		if err != nil || !ok || leaf != Leaf || !info.SegmentsReady || !info.SnowflakeReady {
			t.Errorf("%s: %v, %+v", v.Name, err, info)
		}
	case "numbers", "texts":
		if request != nil && request.Message == "SERIES_NEXT" {
			if texts, err := readNumbers(body, request.Count); err != nil || fmt.Sprint(texts) != fmt.Sprint(want.Texts) {
				t.Errorf("%s: %v, %q", v.Name, err, texts)
			}
			return
		}
		items, err := readMasked(body, len(want.IDs)+len(want.Texts), want.Kind == "texts")
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		for i, item := range items {
			if ids, err := numbers([]string{item}, nil); want.Kind == "numbers" && (err != nil || ids[0] != want.IDs[i]) ||
				want.Kind == "texts" && item != want.Texts[i] {
				t.Errorf("%s: % x", v.Name, item)
			}
		}
	case "json":
	default:
		t.Errorf("%s: a reply of kind %s", v.Name, want.Kind)
	}
}

func TestALiveDaemonAnswersAsTheVectorsSay(t *testing.T) {
	all := readVectors(t)
	for name, vectors := range map[string][]vector{"vectors": all.Vectors, "masked": all.Masked, "series": all.Series} {
		host := newHost(t)
		host.maskKey("1 000102030405060708090a0b0c0d0e0f\n")
		host.start()
		host.create("orders")
		host.leafctl("series", "create", "bills", "--format", "B{n:4}")
		var socket net.Conn
		for _, v := range vectors {
			if socket == nil {
				socket = host.dial()
			}
			socket.Write(v.bytes(t, v.Send))
			head := make([]byte, 4)
			if _, err := io.ReadFull(socket, head); err != nil {
				t.Fatalf("%s, %s: %v", name, v.Name, err)
			}
			body := make([]byte, le.Uint32(head))
			if _, err := io.ReadFull(socket, body); err != nil {
				t.Fatalf("%s, %s: %v", name, v.Name, err)
			}
			frame := append(head, body...)
			checkBytes(t, v, frame)
			if v.Reply != nil {
				checkReply(t, v, v.Request, frame)
			}
			if v.Closes != Status(le.Uint16(frame[6:])).closes() {
				t.Errorf("%s: %v", v.Name, Status(le.Uint16(frame[6:])))
			}
			if v.Closes {
				if _, err := socket.Read(head); err != io.EOF {
					t.Errorf("%s: %v", v.Name, err)
				}
				socket = nil
			}
		}
	}
}

func checkBytes(t *testing.T, v vector, frame []byte) {
	t.Helper()
	expect := words(v.Expect)
	if last := len(expect) - 1; expect[last] == "..." && len(frame) >= last {
		expect, frame = expect[:last], frame[:last]
	}
	if len(expect) != len(frame) {
		t.Errorf("%s: %d bytes", v.Name, len(frame))
		return
	}
	for i, word := range expect {
		if found := fmt.Sprintf("%02x", frame[i]); word != "??" && word != found {
			t.Errorf("%s: byte %d is %s, not %s", v.Name, i, found, word)
		}
	}
}

// FuzzReplies reads arbitrary bytes as every kind of answer. Nothing may panic, and every id that is read must be
// positive.
func FuzzReplies(f *testing.F) {
	for _, reply := range [][]byte{idsBody(60_000, run{1, 10, 1}), idsBody(8, run{1 << 62, 2, 1 << 31}), infoBody(1, 3),
		append([]byte{1, 0, 8, 0}, make([]byte, 8)...), append([]byte{0, 0, 0, 0}, "a reason\xff"...), nil} {
		f.Add(byte(opIDs), reply)
	}
	text, err := os.ReadFile("../../protocol-vectors.json")
	var all vectors
	if json.Unmarshal(text, &all); err != nil || len(all.Replies) == 0 {
		f.Fatal("no vectors: ", err)
	}
	for _, v := range append(all.Replies, all.Series...) {
		if v.Bytes == "" {
			v.Bytes = strings.ReplaceAll(v.Expect, "??", "00")
		}
		if frame := v.bytes(new(testing.T), v.Bytes); len(frame) >= headerBytes {
			f.Add(frame[4]-opReply, frame[headerBytes:])
		}
	}
	f.Fuzz(func(t *testing.T, opcode byte, body []byte) {
		for _, hold := range []bool{false, true} {
			if got, _, err := readIDs(body, 1000, hold); err == nil {
				total := int64(0)
				for _, r := range got {
					total += r.count
					if last := r.first + (r.count-1)*r.stride; r.first < 1 || last < r.first {
						t.Fatalf("%+v", r)
					}
				}
				if total > 1000 || !hold && total != 1000 {
					t.Fatalf("%d ids", total)
				}
			}
		}
		if info, err := readInfo(body); err == nil {
			for _, layout := range info.Layouts {
				if err := layout.Check(); err != nil {
					t.Fatal(err)
				}
				layout.Decode(int64(len(body)))
				layout.FirstIDAt(time.UnixMilli(int64(len(body))))
			}
		}
		if ids, err := numbers(readMasked(body, 3, false)); err == nil && len(ids) != 3 {
			t.Fatalf("%d ids", len(ids))
		}
		if texts, err := readMasked(body, 3, true); err == nil && len(texts) != 3 {
			t.Fatalf("%d texts", len(texts))
		}
		if texts, err := readNumbers(body, 2); err == nil && len(texts) != 2 {
			t.Fatalf("%d document numbers", len(texts))
		}
		if readRefusal(Status(opcode), body).Error() == "" {
			t.Fatal("no message")
		}
		if _, _, _, read, err := readReply(bytes.NewReader(body)); err == nil && len(read) > replyLengthMax {
			t.Fatalf("%d bytes", len(read))
		}
	})
}
