package rdb

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options(t *testing.T, url string) *redis.Options {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// fill writes a value of each type and of each way in which Redis keeps one, and returns how many.
func fill(t *testing.T, rdb *redis.Client) (n int) {
	t.Helper()
	ctx := t.Context()
	pipe := rdb.Pipeline()
	long := strings.Repeat("glovebox ", 40)
	for name, value := range map[string]string{"text": "x", "empty": "", "long": long, "int8": "-7", "int16": "-3000", "int32": "70000", "large": strings.Repeat("0123456789abcdef", 20000)} {
		pipe.Set(ctx, "gb:{a}:"+name, value, 0)
	}
	pipe.Set(ctx, "gb:{a}:"+strings.Repeat("packed", 30), 1, 0) // a name that is compressed
	for _, number := range []string{"12", "-129", "70000"} {    // names that are kept as numbers
		pipe.Set(ctx, number, number, 0)
	}
	pipe.Set(ctx, "gb:{a}:expires", 1, time.Hour)
	for _, size := range []int{3, 1500} {
		for i := range size {
			word := fmt.Sprintf("%s%d", long[:i%90], i)
			pipe.HSet(ctx, fmt.Sprint("hash", size), word, i)
			pipe.SAdd(ctx, fmt.Sprint("set", size), word)
			pipe.SAdd(ctx, fmt.Sprint("ints", size), i*i)
			pipe.ZAdd(ctx, fmt.Sprint("zset", size), redis.Z{Score: float64(i) / 3, Member: word})
			pipe.RPush(ctx, fmt.Sprint("list", size), word)
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: fmt.Sprint("stream", size), Values: []any{"n", i, "text", word}})
		}
	}
	pipe.RPush(ctx, "largelist", strings.Repeat("x", 20000), "y")
	pipe.XGroupCreate(ctx, "stream3", "group", "0")
	pipe.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "group", Consumer: "c", Streams: []string{"stream3", ">"}, Count: 2, Block: -1})
	pipe.FunctionLoad(ctx, "#!lua name=l\nredis.register_function('f', function() return 1 end)")
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	return int(rdb.DBSize(ctx).Val())
}

// TestSnapshot: each value comes as Redis's own DUMP has it.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	o := options(t, gbtest.Redis(t).Admin())
	source := redis.NewClient(o)
	defer source.Close()
	n := fill(t, source)
	snapshot, err := Fetch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	var file bytes.Buffer
	if _, err := snapshot.WriteTo(&file); err != nil || int64(file.Len()) != snapshot.Size {
		t.Fatalf("got %d bytes of %d, %v", file.Len(), snapshot.Size, err)
	}
	d, err := NewReader(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for {
		k, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n--
		if want := source.Dump(t.Context(), k.Name).Val(); want != string(k.Dump) {
			t.Errorf("%.80q: got %s, want %s", k.Name, hex.EncodeToString(k.Dump[:min(len(k.Dump), 60)]), hex.EncodeToString([]byte(want)[:min(len(want), 60)]))
		}
		left := source.PExpireTime(t.Context(), k.Name).Val()
		if k.Expires.IsZero() != (left < 0) || !k.Expires.IsZero() && k.Expires.UnixMilli() != left.Milliseconds() {
			t.Errorf("%s: got expiry %s, want %s", k.Name, k.Expires, left)
		}
	}
	if n != 0 {
		t.Errorf("%d keys are missing", n)
	}
	for _, at := range []int{0, 8, 100, file.Len() / 2, file.Len() - 1} { // one bit that differs
		damaged := bytes.Clone(file.Bytes())
		damaged[at] ^= 1
		if err := readAll(damaged); !errors.Is(err, ErrFormat) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("byte %d changed: got %v", at, err)
		}
	}
	for _, size := range []int{0, 5, 9, 100, file.Len() - 9, file.Len() - 1} {
		if err := readAll(file.Bytes()[:size]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes of %d: got %v", size, file.Len(), err)
		}
	}
}

func readAll(b []byte) error {
	d, err := NewReader(bytes.NewReader(b))
	for err == nil {
		_, err = d.Next()
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// text is a string of a snapshot, of 63 bytes at most.
func text(s string) string { return string(rune(len(s))) + s }

// TestStreamsOfNewerRedis: streams of Redis 8.6 and 8.8, which the tests' Redis doesn't write, come with all that they
// have. So does a key beside which a module keeps something; that doesn't come.
func TestStreamsOfNewerRedis(t *testing.T) {
	t.Parallel()
	const id, when = "0123456789abcdef", "12345678"
	begin := "\x01" + text(id) + text("entries") + // one pack of entries
		"\x01\x02\x03\x04\x05\x06\x07\x08" + // how many, ids of the last, the first and the last deleted, how many ever
		"\x01" + text("group") + "\x01\x02\x03" + "\x02" + id + when + "\x01" + id + when + "\x02" + // two were handed out
		"\x01" + text("consumer") + when + when + "\x01" + id // one of them to a consumer
	producers := "\x40\x64\x0a" + // remembered for 100 s, 10 messages
		"\x02" + text("a") + "\x02" + text("m1") + "\x01\x02" + "\xc0\x07" + "\x81" + when + "\x04" + text("b") + "\x00" + // two of one producer, none of another
		"\x05\x06" // how many came, and how many again
	for version, value := range map[string]string{
		"0013": "\x1a" + begin + producers,
		"0014": "\x1b" + begin + "\x01" + id + producers, // the other was given back
	} {
		meta := "\xf3\x02" + "abcd" + "\x01\x07\x02\x08\x00" + "efgh" + "\x03" + "1234" + "\x04" + when + "\x05" + text("x") + "\x00"
		file := "REDIS" + version + "\xfe\x00" + value[:1] + text("stream") + value[1:] + meta + "\x00" + text("k") + text("v") + "\xff" + strings.Repeat("\x00", 8)
		d, err := NewReader(strings.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{value, "\x00" + text("v")} {
			k, err := d.Next()
			if err != nil {
				t.Fatalf("version %s: %v", version, err)
			}
			if got := string(k.Dump[:len(k.Dump)-10]); got != want { // behind it are version and checksum
				t.Errorf("version %s, %s: got %q, want %q", version, k.Name, got, want)
			}
		}
		if _, err := d.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("version %s: got %v, want the end", version, err)
		}
		for size := len("REDIS0013"); size < len(file); size++ {
			if err := readAll([]byte(file[:size])); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("version %s, %d bytes of %d: got %v", version, size, len(file), err)
			}
		}
	}
	if err := readAll([]byte("VALKEY080\xf3\x00\x00\x01k\x01v\xff\x00\x00\x00\x00\x00\x00\x00\x00")); !errors.Is(err, ErrFormat) {
		t.Errorf("0xf3 of Valkey: got %v", err)
	}
}

// TestFetchRefused: what Redis refuses is said, and no password with it.
func TestFetchRefused(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	server.MayRefuse = true
	for url, want := range map[string]string{
		server.API(): "NOPERM",
		strings.Replace(server.Admin(), server.Password, "wrong-password", 1): "WRONGPASS",
	} {
		_, err := Fetch(t.Context(), options(t, url))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "wrong-password") || strings.Contains(err.Error(), server.Password) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestFetchCanceled: a Redis that says nothing keeps nobody.
func TestFetchCanceled(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	server.Hangs = true
	o := options(t, server.Admin())
	server.Signal(syscall.SIGSTOP)
	defer server.Signal(syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Fetch(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestHugeLengths: a snapshot that speaks of more than it has takes no memory for it.
func TestHugeLengths(t *testing.T) {
	t.Parallel()
	huge := "\x81\x7f\xff\xff\xff\xff\xff\xff\xff"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, s := range []string{
		"REDIS0011\x00" + huge, "REDIS0011\x00\xc3\x01" + huge + "x", "REDIS0011\x00\xc3" + huge + "\x05", "REDIS0011\x00\x01k" + huge, "REDIS0011\x01\x01k" + huge + "\x01",
		"REDIS0011\x0f\x01k" + huge, "REDIS0011\xfe" + huge, "REDIS0011\xfa" + huge,
	} {
		if err := readAll([]byte(s)); err == nil {
			t.Errorf("%q: got no error", s)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("it took %d bytes", took)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("REDIS0011\xfe\x00\x00\x01k\x01v\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("REDIS0009\xfc12345678\x03\x01k\x02\x01a\xfd\x01b\x011\xff"))
	f.Add([]byte("VALKEY080\x00\xc3\x05\x08\x03abcd \x00\x01v"))
	f.Add([]byte("REDIS0011\x13\x01s\x01\x10aaaaaaaaaaaaaaaa\x03abc\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01g\x01\x01\x01\x00\x00\xff"))
	f.Add([]byte("REDIS0013\xf3\x01abcd\x05\x01x\x00\x1a\x01s\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01p\x01\x01m\x01\x01\x00\x00\xff"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = readAll(b) // it ends, and doesn't panic
	})
}

func FuzzDecompress(f *testing.F) {
	f.Add([]byte("\x03abcd \x00"), 8)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		if size < 0 || size > MaxKey {
			return
		}
		if out, ok := decompress(in, size); ok && len(out) != size {
			t.Errorf("got %d bytes, want %d", len(out), size)
		}
	})
}
