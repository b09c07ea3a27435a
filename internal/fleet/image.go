package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// PublishImages says which images of one's own this worker runs: they are in its store,
// and its operator allows them. What no worker has said for a week is forgotten.
func (f *Fleet) PublishImages(ctx context.Context, images []string) error {
	all, err := f.published(ctx, imagesKey)
	if err != nil {
		return fmt.Errorf("publish images: %w", err)
	}
	now := f.now().UnixMilli()
	var fields []any
	for _, i := range images {
		fields = append(fields, i, now)
	}
	var expired []string
	for image, seen := range all {
		if !f.fresh(seen) && !slices.Contains(images, image) {
			expired = append(expired, image)
		}
	}
	if len(fields) > 0 {
		err = f.publish(ctx, imagesKey, fields...)
	}
	if err == nil && len(expired) > 0 {
		err = f.rdb.HDel(ctx, imagesKey, expired...).Err()
	}
	if err != nil {
		return fmt.Errorf("publish images: %w", err)
	}
	return nil
}

// Images lists what workers published, sorted.
func (f *Fleet) Images(ctx context.Context) ([]string, error) {
	all, err := f.published(ctx, imagesKey)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	var list []string
	for image, seen := range all {
		if f.fresh(seen) {
			list = append(list, image)
		}
	}
	slices.Sort(list)
	return list, nil
}

// fresh reports whether the time, in ms as Redis has it, is not long ago.
func (f *Fleet) fresh(seen string) bool {
	at, err := strconv.ParseInt(seen, 10, 64)
	return err == nil && f.seen(time.UnixMilli(at)) && f.now().Sub(time.UnixMilli(at)) < runtimeTTL
}
