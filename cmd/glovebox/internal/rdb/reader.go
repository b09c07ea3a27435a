package rdb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxValue is the most that a value may take in a snapshot: Redis takes no longer argument
	// (proto-max-bulk-len, 512 MiB by default), so nothing longer could be restored.
	MaxValue = 512 << 20
	// MaxKey is the longest name of a key. Glovebox's own are below 1 KiB.
	MaxKey = 64 << 10
	// The versions of the format that the types below are of: Redis 5 to 8, Valkey 8 and 9.
	oldest, newest = 9, 80
	// valkey is the first version that is Valkey's alone.
	valkey = 80
)

// ErrFormat means that it is no snapshot, a damaged one, or one of a Redis that this version
// doesn't know.
var ErrFormat = errors.New("not a snapshot that can be read")

// Key is a key of a snapshot.
type Key struct {
	DB   int
	Name string
	// Expires is the zero time for a key that stays.
	Expires time.Time
	// Dump is the value as RESTORE takes it. It is good until the next call of Next.
	Dump []byte
}

// Reader reads a snapshot.
type Reader struct {
	in      *bufio.Reader
	version uint16
	db      int
	sum     uint64 // of everything that was read
	keep    bool   // what is read goes to kept, too
	kept    []byte
	scratch [16]byte
	ended   bool
}

// NewReader reads how a snapshot begins. It fails with [ErrFormat] for what is none.
func NewReader(r io.Reader) (*Reader, error) {
	d := &Reader{in: bufio.NewReaderSize(r, 64<<10)}
	var begin [9]byte
	if err := d.read(begin[:]); err != nil {
		return nil, err
	}
	digits, ok := strings.CutPrefix(string(begin[:]), "REDIS")
	if !ok {
		digits, ok = strings.CutPrefix(string(begin[:]), "VALKEY")
	}
	version, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil {
		return nil, fmt.Errorf("%w: it begins with %q", ErrFormat, begin)
	}
	if version < oldest || version > newest {
		return nil, fmt.Errorf("%w: it is of version %d, want %d to %d", ErrFormat, version, oldest, newest)
	}
	d.version = uint16(version)
	return d, nil
}

// What stands before something other than a value.
const (
	opMeta     = 0xf3 // to Valkey, something else
	opSlotInfo = 0xf4
	opFunction = 0xf5
	opIdle     = 0xf8
	opFreq     = 0xf9
	opAux      = 0xfa
	opResize   = 0xfb
	opExpireMS = 0xfc
	opExpire   = 0xfd
	opSelect   = 0xfe
	opEnd      = 0xff
	maxDB      = 1 << 20
)

// Next returns the next key, or io.EOF at the end, once the checksum of all was seen to be right.
func (d *Reader) Next() (Key, error) {
	var expires time.Time
	for !d.ended {
		op, err := d.byte()
		if err != nil {
			return Key{}, err
		}
		if op == opMeta && d.version < valkey {
			if err := d.skipMeta(); err != nil {
				return Key{}, err
			}
			continue
		}
		switch op {
		case opAux:
			err = d.skipStrings(2)
		case opFunction:
			err = d.skipStrings(1)
		case opSlotInfo:
			err = d.skipLengths(3)
		case opResize:
			err = d.skipLengths(2)
		case opIdle:
			err = d.skipLengths(1)
		case opFreq:
			err = d.skip(1)
		case opSelect:
			err = d.selectDB()
		case opExpire:
			err = d.read(d.scratch[:4])
			expires = time.Unix(int64(binary.LittleEndian.Uint32(d.scratch[:])), 0)
		case opExpireMS:
			err = d.read(d.scratch[:8])
			expires = time.UnixMilli(int64(binary.LittleEndian.Uint64(d.scratch[:]))) //nolint:gosec // the same bits
		case opEnd:
			err = d.end()
		default:
			return d.key(op, expires)
		}
		if err != nil {
			return Key{}, err
		}
	}
	return Key{}, io.EOF
}

// key reads a key's name and value, of that type.
func (d *Reader) key(kind byte, expires time.Time) (Key, error) {
	name, err := d.name()
	if err != nil {
		return Key{}, err
	}
	d.keep, d.kept = true, append(d.kept[:0], kind)
	err = d.skipValue(kind)
	d.keep = false
	if err != nil {
		return Key{}, fmt.Errorf("value of %.200q: %w", name, err)
	}
	d.kept = binary.LittleEndian.AppendUint16(d.kept, d.version)
	d.kept = binary.LittleEndian.AppendUint64(d.kept, checksum(0, d.kept))
	return Key{DB: d.db, Name: name, Expires: expires, Dump: d.kept}, nil
}

func (d *Reader) selectDB() error {
	n, _, err := d.length()
	if err == nil && n > maxDB {
		err = fmt.Errorf("%w: database %d", ErrFormat, n)
	}
	d.db = int(n) //nolint:gosec // at most maxDB
	return err
}

// end compares the checksum at the end, which is 0 where Redis was told to make none.
func (d *Reader) end() error {
	want := d.sum
	if err := d.read(d.scratch[:8]); err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(d.scratch[:]); got != 0 && got != want {
		return fmt.Errorf("%w: its checksum is %016x, what it has comes to %016x", ErrFormat, got, want)
	}
	d.ended = true
	return nil
}

// read fills p. The end of the input is io.ErrUnexpectedEOF: a snapshot says itself where it ends.
func (d *Reader) read(p []byte) error {
	if _, err := io.ReadFull(d.in, p); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read snapshot: %w", err)
	}
	d.sum = checksum(d.sum, p)
	if !d.keep {
		return nil
	}
	if len(d.kept)+len(p) > MaxValue {
		return fmt.Errorf("%w: more than %d MiB", ErrFormat, MaxValue>>20)
	}
	d.kept = append(d.kept, p...)
	return nil
}

func (d *Reader) byte() (byte, error) {
	err := d.read(d.scratch[:1])
	return d.scratch[0], err
}

// skip passes over n bytes. It takes no memory for what isn't there, whatever n is.
func (d *Reader) skip(n uint64) error {
	var block [16 << 10]byte
	for n > 0 {
		some := min(n, uint64(len(block)))
		if err := d.read(block[:some]); err != nil {
			return err
		}
		n -= some
	}
	return nil
}

// jones is the polynomial of Redis's checksums, bits reversed.
var jones = crc64.MakeTable(0x95ac9329ac4bc9b5)

// checksum is Redis's CRC-64, which inverts nothing at its begin and end, as Go's does.
func checksum(sum uint64, p []byte) uint64 { return ^crc64.Update(^sum, jones, p) }
