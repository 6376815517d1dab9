package leafd

import (
	"encoding/binary"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The numbers of protocol.md.
const (
	protocolVersion = 1
	replyLengthMax  = 1 << 20
	countMax        = 1_000_000
	deadlineMax     = 60 * time.Second
	tagBytesMax     = 128 * utf8.UTFMax
	prefixBytesMax  = 32
	headerBytes     = 12
	deadlineAt      = headerBytes + 4 // the offset of the deadline in a request for ids or document numbers

	opInfo, opIDs, opMask, opUnmask, opSeriesNext = 1, 2, 4, 5, 8
	opReply                                       = 128 // added to the request's opcode
	flagHold                                      = 1
	flagText                                      = 2
)

var le = binary.LittleEndian

// request begins a frame with a body of the given length. The request id is set when it is sent.
func request(opcode byte, flag bool, flags byte, bodyBytes int) []byte {
	frame := make([]byte, headerBytes, headerBytes+bodyBytes)
	le.PutUint32(frame, uint32(headerBytes-4+bodyBytes))
	if frame[4] = opcode; flag {
		frame[5] = flags
	}
	return frame
}

// cut truncates a text that is longer than any valid one. The daemon also rejects the truncated text.
func cut(text string, bytesMax int) string { return text[:min(len(text), bytesMax+1)] }

// idsRequest makes an IDS request. The deadline is set again whenever it is sent.
func idsRequest(hold bool, count int, deadlineMs uint32, tag string) []byte {
	tag = cut(tag, tagBytesMax)
	frame := request(opIDs, hold, flagHold, 10+len(tag))
	frame = le.AppendUint32(le.AppendUint32(frame, uint32(count)), deadlineMs)
	return append(le.AppendUint16(frame, uint16(len(tag))), tag...)
}

func infoRequest(versionMin, versionMax uint16) []byte {
	return le.AppendUint16(le.AppendUint16(request(opInfo, false, 0, 4), versionMin), versionMax)
}

// maskRequest makes a MASK or UNMASK request. The items are numbers of 8 bytes or, for UNMASK with text, length-prefixed.
func maskRequest(opcode byte, text bool, form PublicForm, tag string, items []string) []byte {
	if !text {
		form.Prefix = ""
	}
	tag, form.Prefix = cut(tag, tagBytesMax), cut(form.Prefix, prefixBytesMax)
	body := tag + form.Prefix + strings.Join(items, "")
	frame := append(request(opcode, text, flagText, 8+len(body)), form.Bits, form.Key)
	for _, length := range []int{len(items), len(tag), len(form.Prefix)} {
		frame = le.AppendUint16(frame, uint16(length))
	}
	return append(frame, body...)
}

// seriesRequest makes a SERIES_NEXT request. The deadline is set again whenever it is sent.
func seriesRequest(count int, deadlineMs uint32, series, tenant string) []byte {
	if tenant != "" {
		series += "/" + tenant
	}
	frame := idsRequest(false, count, deadlineMs, series)
	frame[4] = opSeriesNext
	return frame
}

// run is first, first + stride, and so on: count ids.
type run struct{ first, count, stride int64 }

func (r run) valid() bool {
	// The product is below 2^31 * 2^32.
	return r.first >= 1 && r.count >= 1 && r.count <= math.MaxInt32 && r.stride >= 1 &&
		(r.count-1)*r.stride <= math.MaxInt64-r.first
}

// fields reads the fields of a body one by one. Past the end it reads zeros and sets short.
type fields struct {
	body  []byte
	short bool
}

func (f *fields) take(length int) []byte {
	if len(f.body) < length {
		f.body, f.short = make([]byte, length), true
	}
	taken := f.body[:length]
	f.body = f.body[length:]
	return taken
}

func (f *fields) u16() uint16  { return le.Uint16(f.take(2)) }
func (f *fields) u32() uint32  { return le.Uint32(f.take(4)) }
func (f *fields) u64() int64   { return int64(le.Uint64(f.take(8))) }
func (f *fields) text() string { return string(f.take(int(f.u16()))) }

func (f *fields) ms() time.Duration { return time.Duration(f.u32()) * time.Millisecond }

// complete reports whether the body ended with the last field.
func (f *fields) complete() bool { return !f.short && len(f.body) == 0 }

// readReply reads a frame from the daemon.
func readReply(in io.Reader) (status Status, opcode byte, id uint32, body []byte, err error) {
	var head [headerBytes]byte
	if _, err = io.ReadFull(in, head[:]); err != nil {
		return
	}
	length := le.Uint32(head[:])
	if length < headerBytes-4 || length > replyLengthMax {
		err = broken("a reply has an impossible length")
		return
	}
	body = make([]byte, length-(headerBytes-4))
	_, err = io.ReadFull(in, body)
	return Status(le.Uint16(head[6:])), head[4], le.Uint32(head[8:]), body, err
}

// readIDs reads the answer to a request for count ids; with hold, fewer are allowed. It also returns how long they may
// be held, or 0 if they may not be held.
func readIDs(body []byte, count int, hold bool) (runs []run, held time.Duration, err error) {
	f, total, valid := fields{body: body}, int64(0), true
	held, number := f.ms(), f.u16()
	f.u16()
	for ; number > 0 && !f.short; number-- {
		r := run{f.u64(), int64(f.u32()), int64(f.u32())}
		runs = append(runs, r)
		total += r.count
		valid = valid && r.valid()
	}
	if !valid || !f.complete() || total == 0 || total > int64(count) || !hold && total < int64(count) {
		return nil, 0, broken("an answer does not consist of valid runs with the number of ids that was requested")
	}
	return runs, held, nil
}

// readMasked returns the items of the answer to a request for count of them, which are texts or numbers of 8 bytes.
func readMasked(body []byte, count int, text bool) ([]string, error) {
	f := fields{body: body}
	number, length := int(f.u16()), int(f.u16())
	items := make([]string, count)
	for i := range items {
		items[i] = string(f.take(length))
	}
	if number != count || length == 0 || !text && length != 8 || !f.complete() {
		return nil, broken("an answer does not have the public ids that were requested")
	}
	return items, nil
}

// readNumbers returns the texts of the answer to a request for count document numbers.
func readNumbers(body []byte, count int) ([]string, error) {
	texts := strings.Split(string(body), "\n")
	if len(texts) != count || slices.Contains(texts, "") {
		return nil, broken("an answer does not have the document numbers that were requested")
	}
	return texts, nil
}

// readInfo reads the answer to INFO. Later daemons may append fields, which are ignored.
func readInfo(body []byte) (Info, error) {
	f := fields{body: body}
	info := Info{Version: int(f.u16()), Layouts: map[string]Layout{}}
	ready := f.u16()
	info.SegmentsReady, info.SnowflakeReady = ready&1 != 0, ready&2 != 0
	info.RequestBytesMax, info.CountMax, info.PipelineMax = f.u32(), f.u32(), f.u32()
	info.DeadlineMax, info.PID, info.Release = f.ms(), f.u32(), f.text()
	valid := info.Version == protocolVersion
	for left := f.u16(); left > 0 && !f.short; left-- {
		name, bits := f.text(), f.take(4)
		layout := Layout{bits[0], bits[1], bits[2], f.ms(), time.UnixMilli(f.u64())}
		valid = valid && layout.Check() == nil
		info.Layouts[name] = layout
	}
	if f.short || !valid {
		return Info{}, broken("the answer to INFO ends too early, or has an invalid layout, or another version")
	}
	return info, nil
}

// readRefusal reads the body of an answer whose status is not OK.
func readRefusal(status Status, body []byte) *Error {
	if len(body) < 4 {
		return broken("an answer ends too early")
	}
	message := strings.ToValidUTF8(string(body[4:]), string(utf8.RuneError))
	return &Error{Status: status, RetryAfter: time.Duration(le.Uint32(body)) * time.Millisecond, Message: message}
}
