package leafd

import "context"

const numbersMax = 1_000 // in one request; one call draws up to countMax

// Series draws the document numbers of a series, or of one of its tenants, such as "INV-2026-000123". Use [Client.Series] to
// get one. It is safe for concurrent use.
//
// Each call draws directly from the daemon, which uses the store's clock to decide which period a number belongs to.
// Errors are [StatusTagUnknown] if there is no such series, [StatusValueRefused] for a tenant that the series can't have,
// and [StatusStoreUnavailable] during a store outage if the daemon doesn't know the period or holds no numbers for it.
type Series struct {
	draw         DrawNumbers
	name, tenant string
}

// DrawNumbers draws the next document numbers of a series. The tenant is empty for a series without tenants.
type DrawNumbers func(ctx context.Context, series, tenant string, count int) ([]string, error)

// NewSeries returns a series whose numbers come from a function, for tests. See also package leafdtest.
func NewSeries(name string, draw DrawNumbers) *Series { return &Series{draw, name, ""} }

// Series returns a handle for a series. It does not check whether the series exists.
func (c *Client) Series(name string) *Series { return NewSeries(name, c.link.drawNumbers) }

// Tenant returns the series of a tenant, whose name has letters and digits, in upper or lower case.
func (s *Series) Tenant(tenant string) *Series { return &Series{s.draw, s.name, tenant} }

// Next draws the next number.
func (s *Series) Next(ctx context.Context) (string, error) {
	numbers, err := s.NextBatch(ctx, 1)
	if err != nil {
		return "", err
	}
	return numbers[0], nil
}

// NextBatch draws count numbers, from 0 to a million, in the order of issue. They may span two periods. Each thousand
// takes one request. If one of several requests fails, the numbers of the others are skipped.
func (s *Series) NextBatch(ctx context.Context, count int) ([]string, error) {
	if count < 0 || count > countMax {
		return nil, invalid("a batch has 0 to %d document numbers, not %d", countMax, count)
	}
	return s.draw(ctx, s.name, s.tenant, count)
}

func (l *link) drawNumbers(ctx context.Context, series, tenant string, count int) (numbers []string, err error) {
	c, cancel := l.call(ctx)
	defer cancel()
	for len(numbers) < count {
		some := min(count-len(numbers), numbersMax)
		body, err := l.ask(c, seriesRequest(some, c.deadlineMs(), series, tenant))
		if err != nil {
			return nil, err
		}
		drawn, err := readNumbers(body, some)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, drawn...)
	}
	return numbers, nil
}
