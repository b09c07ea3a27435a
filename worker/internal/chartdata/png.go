package chartdata

import "encoding/binary"

const (
	pngSignature = "\x89PNG\r\n\x1a\n"
	// A chunk is a length of four bytes, a name of four, its content, and a checksum of four.
	chunkHead, chunkTail = 8, 4
)

// pngFinder goes from chunk to chunk, up to the first that holds an image.
type pngFinder struct {
	next int // where the next chunk begins
}

func (f *pngFinder) find(head []byte) (data []byte, done bool) {
	for len(head) >= f.next+chunkHead {
		length := uint64(binary.BigEndian.Uint32(head[f.next:]))
		name := string(head[f.next+4 : f.next+chunkHead])
		begin := f.next + chunkHead
		end := uint64(begin) + length
		if name == "IDAT" || name == "IEND" || end > maxHead {
			return nil, true
		}
		if uint64(len(head)) < end {
			return nil, false
		}
		if content := head[begin:end]; name == "tEXt" && begins(content, keyword+"\x00") {
			return content[len(keyword)+1:], true
		}
		f.next = int(end) + chunkTail //nolint:gosec // at most maxHead
	}
	return nil, false
}
