package leafd

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The numbers of protocol.md.
const (
	protocolVersion = 1
	replyLengthMax  = 1 << 20
	countMax        = 1_000_000
	deadlineMax     = 60 * time.Second
	tagRunesMax     = 128
	headerBytes     = 12
	runBytes        = 16
	messageBytesMax = 4096 // longer messages are cut, because nobody reads them

	opInfo, opIDs, opMask, opUnmask = 1, 2, 4, 5
	opReply                         = 128 // added to the request's opcode
	flagHold                        = 1
	flagText                        = 2
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

func idsRequest(hold bool, count int, deadlineMs uint32, tag string) []byte {
	frame := request(opIDs, hold, flagHold, 10+len(tag))
	frame = le.AppendUint32(le.AppendUint32(frame, uint32(count)), deadlineMs)
	return append(le.AppendUint16(frame, uint16(len(tag))), tag...)
}

func infoRequest(versionMin, versionMax uint16) []byte {
	return le.AppendUint16(le.AppendUint16(request(opInfo, false, 0, 4), versionMin), versionMax)
}

// maskRequest asks about count items, which are numbers of 8 bytes or, with text, length-prefixed.
func maskRequest(opcode byte, text bool, form PublicForm, tag string, count int, items []byte) []byte {
	if !text {
		form.Prefix = ""
	}
	frame := append(request(opcode, text, flagText, 8+len(tag)+len(form.Prefix)+len(items)), form.Bits, form.Key)
	frame = le.AppendUint16(le.AppendUint16(frame, uint16(count)), uint16(len(tag)))
	frame = le.AppendUint16(frame, uint16(len(form.Prefix)))
	return append(append(append(frame, tag...), form.Prefix...), items...)
}

// run is first, first + stride, and so on: count ids.
type run struct{ first, count, stride int64 }

func (r run) valid() bool {
	// The product is below 2^31 * 2^32.
	return r.first >= 1 && r.count >= 1 && r.count <= math.MaxInt32 && r.stride >= 1 &&
		(r.count-1)*r.stride <= math.MaxInt64-r.first
}

// drawn is the answer to a request for ids. A hold time of 0 means that the ids must not be held.
type drawn struct {
	runs []run
	hold time.Duration
	sent time.Time
}

func (d drawn) first() int64 {
	if len(d.runs) == 0 {
		return 0
	}
	return d.runs[0].first
}

// readIDs reads the answer to a request for count ids; with hold, fewer are allowed.
func readIDs(body []byte, count int, hold bool) (drawn, error) {
	if len(body) < 8 || len(body)-8 != int(le.Uint16(body[4:]))*runBytes {
		return drawn{}, broken("the number of runs differs from the answer's length")
	}
	number, total := int(le.Uint16(body[4:])), int64(0)
	if number == 0 || number > count {
		return drawn{}, broken("an answer does not have the number of ids that was requested")
	}
	runs := make([]run, number)
	for i := range runs {
		at := body[8+i*runBytes:]
		runs[i] = run{int64(le.Uint64(at)), int64(le.Uint32(at[8:])), int64(le.Uint32(at[12:]))}
		if !runs[i].valid() {
			return drawn{}, broken("a run is empty or leaves the positive 64-bit numbers")
		}
		total += runs[i].count
	}
	if total > int64(count) || !hold && total < int64(count) {
		return drawn{}, broken("an answer does not have the number of ids that was requested")
	}
	return drawn{runs: runs, hold: time.Duration(le.Uint32(body)) * time.Millisecond}, nil
}

// readHeader reads the header of a reply to a request of an opcode, and returns the length of its body.
func readHeader(head []byte, opcode byte) (status Status, length, id uint32, err error) {
	status, length, id = Status(le.Uint16(head[6:])), le.Uint32(head), le.Uint32(head[8:])
	if length < headerBytes-4 || length > replyLengthMax || head[4] != opcode+opReply && (id != 0 || head[4] != opReply) {
		err = broken("a reply has an impossible length or opcode")
	}
	return status, length - (headerBytes - 4), id, err
}

// readMasked returns the items of an answer about count of them.
func readMasked(body []byte, count int) ([][]byte, error) {
	if len(body) < 4 || int(le.Uint16(body)) != count {
		return nil, broken("an answer does not have the number of public ids that was requested")
	}
	length := int(le.Uint16(body[2:]))
	if body = body[4:]; length == 0 || len(body) != count*length {
		return nil, broken("the number of public ids differs from the answer's length")
	}
	items := make([][]byte, count)
	for i := range items {
		items[i] = body[i*length : (i+1)*length]
	}
	return items, nil
}

// cursor reads fields one after the other. Beyond the end it reads zeros and notes that.
type cursor struct {
	body  []byte
	short bool
}

func (c *cursor) take(bytes int) []byte {
	if len(c.body) < bytes {
		c.body, c.short = nil, true
		return make([]byte, bytes)
	}
	taken := c.body[:bytes]
	c.body = c.body[bytes:]
	return taken
}

func (c *cursor) u16() uint16  { return le.Uint16(c.take(2)) }
func (c *cursor) u32() uint32  { return le.Uint32(c.take(4)) }
func (c *cursor) text() string { return string(c.take(int(c.u16()))) }

// readInfo reads the answer to INFO. Later daemons may append fields, which are ignored.
func readInfo(body []byte) (Info, error) {
	c := cursor{body: body}
	info := Info{Version: int(c.u16()), Layouts: map[string]Layout{}}
	ready := c.u16()
	info.SegmentsReady, info.SnowflakeReady = ready&1 != 0, ready&2 != 0
	info.RequestBytesMax, info.CountMax, info.PipelineMax = c.u32(), c.u32(), c.u32()
	info.DeadlineMax = time.Duration(c.u32()) * time.Millisecond
	info.PID, info.Release = c.u32(), c.text()
	valid := utf8.ValidString(info.Release)
	for left := c.u16(); left > 0 && !c.short; left-- {
		name, bits := c.text(), c.take(4)
		tick, epoch := c.u32(), le.Uint64(c.take(8))
		layout := Layout{bits[0], bits[1], bits[2], time.Duration(tick) * time.Millisecond, time.UnixMilli(int64(epoch))}
		if !c.short && (layout.Check() != nil || epoch > unixMsMax) {
			return Info{}, broken("the layout " + name + " is not valid")
		}
		valid = valid && utf8.ValidString(name)
		info.Layouts[name] = layout
	}
	if c.short || !valid {
		return Info{}, broken("the answer to INFO ends too early or is not UTF-8")
	}
	return info, nil
}

// readRefusal reads the body of an answer whose status is not OK.
func readRefusal(status Status, body []byte) error {
	if len(body) < 4 {
		return broken("an answer ends too early")
	}
	text := body[4:]
	if len(text) > messageBytesMax {
		text = append(text[:messageBytesMax:messageBytesMax], "..."...)
	}
	message := strings.ToValidUTF8(string(text), string(utf8.RuneError))
	return &Error{Status: status, RetryAfter: time.Duration(le.Uint32(body)) * time.Millisecond, Message: message}
}

// checkTag returns an error for a name that no tag can have, by the daemon's rule.
func checkTag(tag string) error {
	if count := utf8.RuneCountInString(tag); count < 1 || count > tagRunesMax {
		return invalid("a tag has 1 to %d characters; this one has %d", tagRunesMax, count)
	}
	if !utf8.ValidString(tag) {
		return invalid("the tag %q is not UTF-8", tag)
	}
	for _, character := range tag {
		if unicode.IsControl(character) {
			return invalid("the tag %q has the control character %U", tag, character)
		}
	}
	return nil
}
