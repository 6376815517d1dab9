// Package leafdtest contains a fake client for tests. It needs no daemon.
package leafdtest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"leafd.io/leafd"
)

// Fake is a [leafd.Generator] with predictable ids: 1, 2, 3 and so on for each tag. The zero value is ready to use. It is
// safe for concurrent use.
type Fake struct {
	mu   sync.Mutex
	last map[string]int64
	errs []error
}

var _ leafd.Generator = (*Fake)(nil)

// Start sets the next id of a tag.
func (f *Fake) Start(tag string, first int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(tag, first-1)
}

// Fail makes the next calls return these errors, one each, such as &leafd.Error{Status: leafd.StatusStoreUnavailable}.
func (f *Fake) Fail(errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, errs...)
}

// Next returns the next id of a tag.
func (f *Fake) Next(ctx context.Context, tag string) (int64, error) {
	ids, err := f.NextBatch(ctx, tag, 1)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// NextDirect is the same as Next.
func (f *Fake) NextDirect(ctx context.Context, tag string) (int64, error) { return f.Next(ctx, tag) }

// NextBatch returns the next count ids of a tag.
func (f *Fake) NextBatch(ctx context.Context, tag string, count int) ([]int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, &leafd.Error{Message: err.Error(), Cause: err}
	}
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, err
	}
	if tag == "" || count < 0 {
		return nil, &leafd.Error{Message: fmt.Sprintf("%d ids of the tag %q", count, tag), Cause: leafd.ErrInvalid}
	}
	ids := make([]int64, count)
	for i := range ids {
		ids[i] = f.last[tag] + 1 + int64(i)
	}
	f.set(tag, f.last[tag]+int64(count))
	return ids, nil
}

// Series returns a series with the predictable numbers "bills-1", "bills-2" and so on, or "bills-ACME-1" for a tenant.
func (f *Fake) Series(name string) *leafd.Series {
	return leafd.NewSeries(name, func(ctx context.Context, series, tenant string, count int) ([]string, error) {
		if tenant != "" {
			series += "-" + strings.ToUpper(tenant)
		}
		ids, err := f.NextBatch(ctx, series, count)
		numbers := make([]string, len(ids))
		for i, id := range ids {
			numbers[i] = fmt.Sprintf("%s-%d", series, id)
		}
		return numbers, err
	})
}

func (f *Fake) set(tag string, last int64) {
	if f.last == nil {
		f.last = map[string]int64{}
	}
	f.last[tag] = last
}
