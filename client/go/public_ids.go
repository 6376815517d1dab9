package leafd

import "context"

const (
	// Texts have up to 256 bytes in a request, so that a batch is sure to fit a frame.
	maskBatch    = 240
	textBytesMax = 255
)

// PublicForm is how public ids look. It must be the same when they are read.
type PublicForm struct {
	Prefix string // of texts
	Bits   uint8  // of dense and public ids; 63 by default
	Key    uint8  // the number of the key; by default the daemon's current one. Texts carry it themselves
}

// PublicIDs turns dense ids of a tag into public ids, and back. The daemon does so, for the users that may.
type PublicIDs struct {
	pool *pool
	tag  string
	form PublicForm
}

// PublicIDs returns the public ids of a tag. It does not ask the daemon whether the tag exists.
func (c *Client) PublicIDs(tag string, form PublicForm) (*PublicIDs, error) {
	if form.Bits == 0 {
		form.Bits = 63
	}
	if len(form.Prefix) > textBytesMax {
		return nil, invalid("a prefix of %d bytes is too long", len(form.Prefix))
	}
	return &PublicIDs{c.pool, tag, form}, checkTag(tag)
}

// Mask returns the public numbers of ids.
func (p *PublicIDs) Mask(ctx context.Context, ids ...int64) ([]int64, error) {
	return ask(ctx, p, opMask, false, ids, number, readNumber)
}

// Unmask returns the ids of public numbers.
func (p *PublicIDs) Unmask(ctx context.Context, public ...int64) ([]int64, error) {
	return ask(ctx, p, opUnmask, false, public, number, readNumber)
}

// MaskText returns the public texts of ids, such as "ord_16dsky4r4xzza8d".
func (p *PublicIDs) MaskText(ctx context.Context, ids ...int64) ([]string, error) {
	return ask(ctx, p, opMask, true, ids, number, func(item []byte) (string, bool) { return string(item), true })
}

// UnmaskText returns the ids of public texts. A text that is no public id of this form fails with [StatusValueRefused].
func (p *PublicIDs) UnmaskText(ctx context.Context, texts ...string) ([]int64, error) {
	return ask(ctx, p, opUnmask, true, texts, func(to []byte, text string) []byte {
		if len(text) > textBytesMax {
			text = text[:textBytesMax] // too long for a public id, which the daemon says
		}
		return append(append(to, byte(len(text))), text...)
	}, readNumber)
}

func number(to []byte, id int64) []byte { return le.AppendUint64(to, uint64(id)) }

func readNumber(item []byte) (int64, bool) {
	if len(item) != 8 {
		return 0, false
	}
	return int64(le.Uint64(item)), true
}

func ask[In, Out any](ctx context.Context, p *PublicIDs, opcode byte, text bool, items []In,
	write func([]byte, In) []byte, read func([]byte) (Out, bool)) ([]Out, error) {
	c, cancel := p.pool.call(ctx)
	defer cancel()
	answers := make([]Out, 0, len(items))
	for len(items) > 0 {
		some := items[:min(maskBatch, int64(len(items)))]
		items = items[len(some):]
		var body []byte
		for _, item := range some {
			body = write(body, item)
		}
		err := p.pool.ask(c, func(uint32) []byte {
			return maskRequest(opcode, text, p.form, p.tag, len(some), body)
		}, func(body []byte) error {
			masked, err := readMasked(body, len(some))
			for _, item := range masked {
				answer, ok := read(item)
				if answers = append(answers, answer); !ok {
					return broken("an answer about numbers has other items")
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}
