package artifacts

import (
	"context"
	"sync"
)

// bufferPool lends part buffers, as many at once as fit its memory. They are kept when
// they come back: left to the garbage collector, several times as many would exist
// between two of its runs. The one that came back last is lent first, so that no more
// are made than were ever needed at once.
type bufferPool struct {
	size  int64
	slots chan struct{}

	mu   sync.Mutex
	free [][]byte
}

func newBufferPool(size, memory int64) *bufferPool {
	return &bufferPool{size: size, slots: make(chan struct{}, memory/size)}
}

// take waits until a buffer may be lent. A caller that waits holds none, so uploads can't block
// each other for good.
func (p *bufferPool) take(ctx context.Context) ([]byte, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.free) - 1; last >= 0 {
		buf := p.free[last]
		p.free = p.free[:last]
		return buf, nil
	}
	return make([]byte, p.size), nil
}

func (p *bufferPool) put(buf []byte) {
	p.mu.Lock()
	p.free = append(p.free, buf)
	p.mu.Unlock()
	<-p.slots
}
