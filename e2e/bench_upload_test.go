package e2e

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/job"
)

// writer leaves a file of so many MiB that no compression shortens, where it is told.
const writer = `import os, sys
block = os.urandom(1 << 20)
with open(sys.argv[1], "wb") as f:
    for _ in range(int(sys.argv[2])):
        f.write(block)
`

// uploads measures the way of a job's file from its sandbox to S3, beside an upload of as
// many bytes from memory.
func (b *bench) uploads() {
	b.t.Helper()
	s := b.table.section("Artifacts: from a sandbox to S3",
		"file", "n", "Glovebox ÷ plain upload", "Glovebox MB/s", "plain upload MB/s", "worker's peak MiB", "more than before MiB")
	s.notef("Glovebox: how much longer a job takes, submit → result, that leaves the file as an artifact than one that leaves it in /tmp. Plain: PutObject of the AWS SDK for Go, the same bytes from memory to the same server. Medians.")
	sizes := []struct {
		megabytes, n int
	}{{16, 21}, {256, 5}} // a cold start is in each, and varies by half of what 16 MiB take
	if b.trial() {
		sizes[1].megabytes = 17
	}
	grew := map[int]int64{}
	for _, size := range sizes {
		n := b.times(size.n)
		b.says(fmt.Sprintf("artifacts of %d MiB", size.megabytes), time.Duration((n+1)*(size.megabytes/25+2))*time.Second)
		file := b.file(size.megabytes)
		plain := b.plainUpload(file)
		var kept, dropped, bare times
		before, err := b.warm.memory()
		b.must(err)
		peak := b.peak(b.warm.worker.PID(), func() {
			for range n + 1 {
				kept = append(kept, b.writes("data.bin", size.megabytes))
				dropped = append(dropped, b.writes("/tmp/data.bin", size.megabytes))
				b.settle()
				b.touch(4*size.megabytes + 256)
				began := time.Now()
				plain()
				bare = append(bare, time.Since(began))
			}
			kept, dropped, bare = kept[1:], dropped[1:], bare[1:]
		})
		grew[size.megabytes] = peak
		path := kept.percentile(50) - dropped.percentile(50)
		speed := func(d time.Duration) float64 { return float64(len(file)) / 1e6 / d.Seconds() }
		r := ratio(bare.percentile(50), path)
		s.row(fmt.Sprintf("%d MiB", size.megabytes), fmt.Sprint(n), number2(r), number1(speed(path)), number1(speed(bare.percentile(50))), megabytes(peak), megabytes(peak-before.worker.rss))
		b.table.check(fmt.Sprintf("an artifact of %d MiB ÷ a plain upload, MB/s", size.megabytes), "≥ 0.5", number2(r), holds(r >= 0.5))
	}
	more := grew[sizes[1].megabytes] - grew[sizes[0].megabytes]
	b.table.check("the worker's memory is flat: its peak for 256 MiB is above that for 16 MiB by", "≤ 24 MiB", megabytes(more)+" MiB", holds(more <= 24<<20))
}

func (b *bench) file(megabytes int) []byte {
	block := make([]byte, 1<<20)
	rand.Read(block)
	return bytes.Repeat(block, megabytes)
}

// writes is how long a job takes that writes a file.
func (b *bench) writes(path string, megabytes int) time.Duration {
	b.t.Helper()
	b.settle()
	b.touch(4*megabytes + 256)
	began := time.Now()
	room := int64(megabytes + 64)
	r, err := b.warm.http.run(b.t.Context(), job.Spec{
		Runtime: "python", Source: writer, Args: []string{path, fmt.Sprint(megabytes)},
		Limits: job.Limits{DiskMB: room, FileMB: room, ArtifactMB: room, MemoryMB: room + 192, WallMS: 60_000},
	})
	took := time.Since(began)
	b.must(err)
	want := 1
	if path[0] == '/' {
		want = 0
	}
	if len(r.Artifacts) != want || want == 1 && r.Artifacts[0].Size != int64(megabytes)<<20 {
		b.t.Fatalf("a job that wrote %s: got %v, %v", path, r.Artifacts, r.ArtifactsSkipped)
	}
	return took
}

// touch lets the kernel hand so much memory out and takes it back, so that what is measured
// next finds it there. A virtual machine's host takes what is free away (free page reporting),
// and 256 MiB of it were seen to cost a second to get again, whoever wanted them: more than
// all else that is measured here.
func (b *bench) touch(megabytes int) {
	b.t.Helper()
	m, err := unix.Mmap(-1, 0, megabytes<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	b.must(err)
	b.must(unix.Munmap(m))
}

// plainUpload returns what stores the data by the SDK alone.
func (b *bench) plainUpload(data []byte) func() {
	server := b.warm.s3
	client := s3.New(s3.Options{
		Region: server.Region, BaseEndpoint: &server.Endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, ""),
	})
	var n int
	return func() {
		n++ // a new key each time, as artifacts have: to replace an object would use its memory again
		key := fmt.Sprintf("plain-%d-%d", len(data), n)
		_, err := client.PutObject(b.t.Context(), &s3.PutObjectInput{Bucket: aws.String(bucket), Key: &key, Body: bytes.NewReader(data)})
		b.must(err)
	}
}

// BenchmarkArtifact is the parts of that, each alone, for profiles of what processes take
// (infra/cpuby): an artifact costs kept less dropped.
func BenchmarkArtifact(b *testing.B) {
	const megabytes = 256
	i := &bench{t: b, scale: 1, warm: newInstallation(b)}
	plain := i.plainUpload(i.file(megabytes))
	for _, part := range []struct {
		name string
		do   func()
	}{
		{"kept", func() { i.writes("data.bin", megabytes) }},
		{"dropped", func() { i.writes("/tmp/data.bin", megabytes) }},
		{"plain", plain},
	} {
		b.Run(part.name, func(b *testing.B) {
			b.SetBytes(megabytes << 20)
			for b.Loop() {
				part.do()
			}
		})
	}
}
