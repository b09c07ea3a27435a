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
