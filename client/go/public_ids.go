package leafd

import "context"

const (
	// In a request, a text takes up to 256 bytes. A batch of this size always fits into a frame.
	maskBatch    = 240
	textBytesMax = 254
)

// PublicForm is the form of public ids. Use the same form to convert them back.
type PublicForm struct {
	// Prefix is the prefix of texts, before a _: a letter, then a to z, 0 to 9 or _, at most 32 characters. The default is
	// none.
	Prefix string
	// Bits is the width of dense and public ids, from 20 to 63. The default is 63. Use 53 for JavaScript's numbers.
	Bits uint8
	// Key is the number of the key, from 1 to 31. The default is 0, the daemon's current key. Texts contain the number.
	Key uint8
}

// PublicIDs converts dense ids of a tag to public ids, and back. The daemon does the conversion. Errors are
// [StatusValueRefused] for an id that doesn't fit the form, [StatusDenied] for a user who may not mask and unmask, and
// [StatusMaskKey] if the daemon has no key or a wrong one.
type PublicIDs struct {
	link *link
	tag  string
	form PublicForm
}

// PublicIDs returns a converter for a tag. It does not check whether the tag exists.
func (c *Client) PublicIDs(tag string, form PublicForm) *PublicIDs {
	if form.Bits == 0 {
		form.Bits = 63
	}
	return &PublicIDs{c.link, tag, form}
}

// Mask converts dense ids to public ids, as numbers. Numbers don't contain the number of their key: once another key is
// in use, they are converted back to the wrong ids unless the form names the old key.
func (p *PublicIDs) Mask(ctx context.Context, ids ...int64) ([]int64, error) {
	return numbers(p.ask(ctx, opMask, false, items(ids)))
}

// Unmask converts public ids, as numbers, back to dense ids.
func (p *PublicIDs) Unmask(ctx context.Context, public ...int64) ([]int64, error) {
	return numbers(p.ask(ctx, opUnmask, false, items(public)))
}

// MaskText converts dense ids to public ids, as text such as "ord_16dsky4r4xzza8d".
func (p *PublicIDs) MaskText(ctx context.Context, ids ...int64) ([]string, error) {
	return p.ask(ctx, opMask, true, items(ids))
}

// UnmaskText converts public ids, as text, back to dense ids. It fails with [StatusValueRefused] if a text is not a
// public id of this form.
func (p *PublicIDs) UnmaskText(ctx context.Context, texts ...string) ([]int64, error) {
	items := make([]string, len(texts))
	for i, text := range texts {
		text = cut(text, textBytesMax)
		items[i] = string([]byte{byte(len(text))}) + text
	}
	return numbers(p.ask(ctx, opUnmask, true, items))
}

func items(ids []int64) []string {
	items := make([]string, len(ids))
	for i, id := range ids {
		items[i] = string(le.AppendUint64(nil, uint64(id)))
	}
	return items
}

func numbers(items []string, err error) ([]int64, error) {
	numbers := make([]int64, len(items))
	for i, item := range items {
		numbers[i] = int64(le.Uint64([]byte(item)))
	}
	return numbers, err
}

func (p *PublicIDs) ask(ctx context.Context, opcode byte, text bool, items []string) (answers []string, err error) {
	c, cancel := p.link.call(ctx)
	defer cancel()
	for len(items) > 0 {
		some := items[:min(maskBatch, len(items))]
		items = items[len(some):]
		body, err := p.link.ask(c, maskRequest(opcode, text, p.form, p.tag, some))
		if err != nil {
			return nil, err
		}
		masked, err := readMasked(body, len(some), text && opcode == opMask)
		if err != nil {
			return nil, err
		}
		answers = append(answers, masked...)
	}
	return answers, nil
}
