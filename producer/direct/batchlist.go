package direct

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// ListBatches is [producer.Batches.ListBatches].
func (c *Client) ListBatches(ctx context.Context, o producer.BatchListOptions) (producer.BatchPage, error) {
	if o.Limit == 0 {
		o.Limit = producer.DefaultPage
	}
	var invalid job.Invalid
	if o.Limit < 1 || o.Limit > producer.MaxPage {
		invalid = append(invalid, job.FieldError{
			Field: "limit", Value: fmt.Sprint(o.Limit), Message: "is out of range", Allowed: fmt.Sprintf("1 to %d", producer.MaxPage),
		})
	}
	var after record.Position
	if o.Cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(o.Cursor)
		position, ok := record.ParseBatchPosition(c.tenant, string(b))
		if err != nil || !ok {
			invalid = append(invalid, job.FieldError{
				Field: "cursor", Value: fmt.Sprintf("%.120s", o.Cursor), Message: "is not a cursor of this list", Allowed: "the next_cursor of the page before",
			})
		}
		after = position
	}
	if invalid != nil {
		return producer.BatchPage{}, invalid
	}
	held, err := c.takeListed(ctx, o.Limit)
	if err != nil {
		return producer.BatchPage{}, err
	}
	batches, next, err := c.records.ListBatches(ctx, c.tenant, after, o.Limit)
	if err != nil {
		held.keep(0)
		return producer.BatchPage{}, err
	}
	page, needed := producer.BatchPage{Batches: make([]job.Batch, len(batches))}, int64(0)
	for _, b := range batches {
		needed += listed(b.Metadata)
	}
	held.keep(needed)
	for i, b := range batches {
		if page.Batches[i], err = c.wireBatch(b); err != nil {
			return producer.BatchPage{}, err
		}
	}
	if next != "" {
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(next))
	}
	return page, nil
}
