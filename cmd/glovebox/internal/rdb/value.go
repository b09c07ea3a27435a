package rdb

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// The types of values, as the format numbers them. Those of modules, and hashes whose fields expire,
// are not here: Glovebox has none.
const (
	kindString     = 0
	kindList       = 1
	kindSet        = 2
	kindZSetText   = 3
	kindHash       = 4
	kindZSet       = 5
	kindZipmap     = 9
	kindListZip    = 10
	kindSetInts    = 11
	kindZSetZip    = 12
	kindHashZip    = 13
	kindQuicklist  = 14
	kindStream     = 15
	kindHashPack   = 16
	kindZSetPack   = 17
	kindQuicklist2 = 18
	kindStream2    = 19
	kindSetPack    = 20
	kindStream3    = 21
	kindStream4    = 26 // Redis 8.6
	kindStream5    = 27 // Redis 8.8
)

// streamID is that of a stream's id: two numbers of 64 bits.
const streamID = 16

// skipValue passes over a value.
func (d *Reader) skipValue(kind byte) error {
	switch kind {
	case kindString, kindZipmap, kindListZip, kindSetInts, kindZSetZip, kindHashZip, kindHashPack, kindZSetPack, kindSetPack:
		return d.skipStrings(1)
	case kindList, kindSet, kindQuicklist:
		return d.each(func() error { return d.skipStrings(1) })
	case kindHash:
		return d.each(func() error { return d.skipStrings(2) })
	case kindZSet:
		return d.each(func() error { return first(d.skipStrings(1), func() error { return d.skip(8) }) })
	case kindZSetText:
		return d.each(func() error { return first(d.skipStrings(1), d.skipNumberText) })
	case kindQuicklist2:
		return d.each(func() error { return first(d.skipLengths(1), func() error { return d.skipStrings(1) }) })
	case kindStream, kindStream2, kindStream3, kindStream4, kindStream5:
		return d.skipStream(kind)
	}
	return fmt.Errorf("%w: type %d of version %d of the format is not known", ErrFormat, kind, d.version)
}

// first does the second if the first went well.
func first(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// each reads how many there are, and then each. Each takes a byte at least, so a number that is
// too large ends with what there is to read.
func (d *Reader) each(one func() error) error {
	n, _, err := d.length()
	for ; err == nil && n > 0; n-- {
		err = one()
	}
	return err
}

// skipNumberText passes over a number that is written as text: its length, or 253 to 255 for what
// is no number.
func (d *Reader) skipNumberText() error {
	n, err := d.byte()
	if err != nil || n >= 253 {
		return err
	}
	return d.skip(uint64(n))
}

// skipStream passes over a stream: its entries, its last id and figures, its consumer groups, and the
// producers whose messages it takes once.
func (d *Reader) skipStream(kind byte) error {
	figures := 3
	if kind >= kindStream2 {
		figures = 8
	}
	err := d.each(func() error { return d.skipStrings(2) })
	if err == nil {
		err = d.skipLengths(figures)
	}
	if err == nil {
		err = d.each(func() error { return d.skipGroup(kind) })
	}
	if err == nil && kind >= kindStream4 {
		err = d.skipProducers()
	}
	return err
}

// skipProducers passes over how long and how many messages are remembered, those of each producer with their
// ids, and how many there were, new and again.
func (d *Reader) skipProducers() error {
	message := func() error { return first(d.skipStrings(1), func() error { return d.skipLengths(2) }) }
	err := d.skipLengths(2)
	if err == nil {
		err = d.each(func() error { return first(d.skipStrings(1), func() error { return d.each(message) }) })
	}
	return first(err, func() error { return d.skipLengths(2) })
}

func (d *Reader) skipGroup(kind byte) error {
	figures := 2
	if kind >= kindStream2 {
		figures = 3
	}
	err := d.skipStrings(1)
	if err == nil {
		err = d.skipLengths(figures)
	}
	if err == nil { // what was handed out: id, when, how often
		err = d.each(func() error { return first(d.skip(streamID+8), func() error { return d.skipLengths(1) }) })
	}
	if err == nil {
		err = d.each(func() error { return d.skipConsumer(kind) })
	}
	if err == nil && kind >= kindStream5 { // what consumers gave back
		err = d.each(func() error { return d.skip(streamID) })
	}
	return err
}

func (d *Reader) skipConsumer(kind byte) error {
	times := uint64(8)
	if kind >= kindStream3 {
		times = 16
	}
	err := d.skipStrings(1)
	if err == nil {
		err = d.skip(times)
	}
	if err == nil {
		err = d.each(func() error { return d.skip(streamID) })
	}
	return err
}

// How a module writes a value: after each of these comes one, and then the end.
const (
	moduleEnd = iota
	moduleInt
	moduleUint
	moduleFloat
	moduleDouble
	moduleString
)

// skipMeta passes over what modules keep beside a key: each has a number of four bytes, and values. RESTORE takes
// the value without it.
func (d *Reader) skipMeta() error {
	return d.each(func() error { return first(d.skip(4), d.skipModule) })
}

func (d *Reader) skipModule() error {
	for {
		how, _, err := d.length()
		if err != nil || how == moduleEnd {
			return err
		}
		switch how {
		case moduleInt, moduleUint:
			err = d.skipLengths(1)
		case moduleFloat:
			err = d.skip(4)
		case moduleDouble:
			err = d.skip(8)
		case moduleString:
			err = d.skipStrings(1)
		default:
			err = fmt.Errorf("%w: a module writes a value in the way %d", ErrFormat, how)
		}
		if err != nil {
			return err
		}
	}
}

// How a string is written that is not its length and its bytes.
const (
	asInt8 = iota
	asInt16
	asInt32
	compressed
)

// length reads a length. special means that it is none, but says how a string is written.
func (d *Reader) length() (n uint64, special bool, err error) {
	begin, err := d.byte()
	if err != nil {
		return 0, false, err
	}
	switch low := uint64(begin & 0x3f); begin >> 6 {
	case 0:
		return low, false, nil
	case 1:
		next, err := d.byte()
		return low<<8 | uint64(next), false, err
	case 3:
		return low, true, nil
	}
	switch begin {
	case 0x80:
		err := d.read(d.scratch[:4])
		return uint64(binary.BigEndian.Uint32(d.scratch[:])), false, err
	case 0x81:
		err := d.read(d.scratch[:8])
		return binary.BigEndian.Uint64(d.scratch[:]), false, err
	}
	return 0, false, fmt.Errorf("%w: a length begins with %#x", ErrFormat, begin)
}

func (d *Reader) skipLengths(n int) error {
	for range n {
		if _, special, err := d.length(); err != nil || special {
			return first(err, func() error { return fmt.Errorf("%w: want a number, got how a string is written", ErrFormat) })
		}
	}
	return nil
}

func (d *Reader) skipStrings(n int) error {
	for range n {
		size, special, err := d.length()
		if err == nil && special {
			size, err = d.specialSize(size)
		}
		if err == nil {
			err = d.skip(size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// specialSize is how many bytes follow of a string that is written in that way.
func (d *Reader) specialSize(how uint64) (uint64, error) {
	switch how {
	case asInt8, asInt16, asInt32:
		return 1 << how, nil
	case compressed:
		size, _, err := d.length()
		if err == nil {
			err = d.skipLengths(1)
		}
		return size, err
	}
	return 0, fmt.Errorf("%w: a string is written in the way %d", ErrFormat, how)
}

// name reads a string of MaxKey bytes at most.
func (d *Reader) name() (string, error) {
	n, special, err := d.length()
	if err != nil {
		return "", err
	}
	if special && n == compressed {
		return d.compressedName()
	}
	size := n
	if special {
		if size, err = d.specialSize(n); err != nil {
			return "", err
		}
	}
	b, err := d.bytes(size)
	if err != nil || !special {
		return string(b), err
	}
	var number [8]byte
	copy(number[:], b)
	shift := 64 - 8*size
	return strconv.FormatInt(int64(binary.LittleEndian.Uint64(number[:])<<shift)>>shift, 10), nil //nolint:gosec // the sign is in the bits
}

func (d *Reader) compressedName() (string, error) {
	packed, _, err := d.length()
	if err != nil {
		return "", err
	}
	size, _, err := d.length()
	if err != nil {
		return "", err
	}
	if size > MaxKey {
		return "", fmt.Errorf("%w: a key's name has %d bytes", ErrFormat, size)
	}
	b, err := d.bytes(packed)
	if err != nil {
		return "", err
	}
	name, ok := decompress(b, int(size)) //nolint:gosec // at most MaxKey
	if !ok {
		return "", fmt.Errorf("%w: a key's name can't be decompressed", ErrFormat)
	}
	return string(name), nil
}

func (d *Reader) bytes(n uint64) ([]byte, error) {
	if n > MaxKey {
		return nil, fmt.Errorf("%w: a key's name has %d bytes", ErrFormat, n)
	}
	b := make([]byte, n)
	return b, d.read(b)
}

// decompress undoes LZF, by which Redis makes long strings shorter: runs of bytes as they are, and
// references to what came before. It reports whether that came to exactly size bytes.
func decompress(in []byte, size int) ([]byte, bool) {
	out := make([]byte, 0, size)
	for len(in) > 0 {
		control := int(in[0])
		in = in[1:]
		if control < 32 { // so many bytes and one more
			n := control + 1
			if n > len(in) || len(out)+n > size {
				return nil, false
			}
			out, in = append(out, in[:n]...), in[n:]
			continue
		}
		n := control>>5 + 2
		if n == 9 { // a byte of the length follows
			if len(in) == 0 {
				return nil, false
			}
			n, in = n+int(in[0]), in[1:]
		}
		if len(in) == 0 {
			return nil, false
		}
		from := len(out) - (control&31<<8 | int(in[0])) - 1
		in = in[1:]
		if from < 0 || len(out)+n > size {
			return nil, false
		}
		for i := range n { // what is copied may reach into what it makes
			out = append(out, out[from+i])
		}
	}
	return out, len(out) == size
}
