package job

// Limits bound a run. In a [Spec], a field that is 0 or absent has its default.
type Limits struct {
	WallMS   int64 `json:"wall_ms,omitempty" minimum:"0" doc:"Wall-clock time, milliseconds." example:"10000"`
	CPUMS    int64 `json:"cpu_ms,omitempty" minimum:"0" doc:"CPU time of all processes, milliseconds; defaults to wall_ms × cpus, at least wall_ms."`
	MemoryMB int64 `json:"memory_mb,omitempty" minimum:"0" doc:"Memory of the whole sandbox, its files included, MiB." example:"256"`
	// CompileWallMS and CompileMemoryMB bound the compile step, which has nothing to do with how much its
	// program may use. Their maximums are those of WallMS and MemoryMB.
	CompileWallMS   int64   `json:"compile_wall_ms,omitempty" minimum:"0" doc:"Wall-clock time of the compile step, milliseconds; its CPU time is bounded by compile_wall_ms × cpus, at least compile_wall_ms. Defaults to wall_ms, or to the runtime's default of that where it is more."`
	CompileMemoryMB int64   `json:"compile_memory_mb,omitempty" minimum:"0" doc:"Memory of the whole sandbox while it compiles, MiB. Defaults to memory_mb, or to the runtime's default of that where it is more."`
	CPUs            float64 `json:"cpus,omitempty" minimum:"0" doc:"CPU share, where limits are hard; fractions are fine, less than 0.1 counts as 0.1."`
	Processes       int64   `json:"processes,omitempty" minimum:"0" doc:"Processes and threads at once. A compile step may have 64 at least."`
	AddressSpaceMB  int64   `json:"address_space_mb,omitempty" minimum:"0" doc:"Address space of each process of the program (RLIMIT_AS), MiB: memory beyond it is refused, and nothing is killed. Absent: none. node, go and java reserve much more than they use, and don't start below 1024 MiB, java not below some 4096."`
	StackMB         int64   `json:"stack_mb,omitempty" minimum:"0" doc:"Stack of each process of the program (RLIMIT_STACK), MiB; absent: 8."`
	OpenFiles       int64   `json:"open_files,omitempty" minimum:"0" doc:"Open files of a process."`
	OutputKB        int64   `json:"output_kb,omitempty" minimum:"0" doc:"Each of stdout and stderr, KiB; the job is stopped beyond it, unless truncate_output says otherwise."`
	FileMB          int64   `json:"file_mb,omitempty" minimum:"0" doc:"Size of one file that the program writes, MiB; defaults to disk_mb."`
	DiskMB          int64   `json:"disk_mb,omitempty" minimum:"0" doc:"The job's directory, MiB."`
	SourceKB        int64   `json:"source_kb,omitempty" minimum:"0" doc:"Source, files and stdin together, KiB."`
	Artifacts       int64   `json:"artifacts,omitempty" minimum:"0" doc:"Number of artifacts that are kept."`
	ArtifactMB      int64   `json:"artifact_mb,omitempty" minimum:"0" doc:"Size of one artifact, MiB; a larger one is not kept."`
}

// DefaultLimits are those of a job that names none, on a runtime that names none.
var DefaultLimits = Limits{
	WallMS: 10_000, MemoryMB: 256, CPUs: 1, Processes: 64, OpenFiles: 256,
	OutputKB: 1024, DiskMB: 64, SourceKB: 1024, Artifacts: 32, ArtifactMB: 32,
}

// DefaultMaximums are the most a job may ask for, unless the operator says otherwise.
var DefaultMaximums = Limits{
	WallMS: 300_000, CPUMS: 1_200_000, MemoryMB: 2048, CPUs: 4, Processes: 1024, OpenFiles: 4096,
	AddressSpaceMB: 1 << 20, StackMB: 128, // more than any machine has, and what gVisor gives a main thread at most
	OutputKB: 64 << 10, FileMB: 1024, DiskMB: 1024, SourceKB: 16 << 10, Artifacts: 256, ArtifactMB: 1024,
}

// Or returns l with every field that is 0 taken from d.
func (l Limits) Or(d Limits) Limits {
	dst, src := l.fields(), d.fields()
	for i := range dst {
		if *dst[i].value == 0 {
			*dst[i].value = *src[i].value
		}
	}
	if l.CPUs == 0 {
		l.CPUs = d.CPUs
	}
	return l
}

// Filled returns l with defaults for every field: the runtime's, then
// [DefaultLimits], then those that follow from other fields. A compiler gets at least the defaults:
// it needs no less for a program that may use little.
func (l Limits) Filled(runtime Limits) Limits {
	defaults := runtime.Or(DefaultLimits)
	l = l.Or(defaults)
	if l.CPUMS == 0 {
		l.CPUMS = cpuMS(l.WallMS, l.CPUs)
	}
	if l.CompileWallMS == 0 {
		l.CompileWallMS = max(l.WallMS, defaults.WallMS)
	}
	if l.CompileMemoryMB == 0 {
		l.CompileMemoryMB = max(l.MemoryMB, defaults.MemoryMB)
	}
	if l.FileMB == 0 {
		l.FileMB = l.DiskMB
	}
	return l
}

func cpuMS(wallMS int64, cpus float64) int64 { return int64(float64(wallMS) * max(cpus, 1)) }

// Compile returns the limits of the compile step, of filled limits.
func (l Limits) Compile() Limits {
	l.WallMS, l.CPUMS, l.MemoryMB = l.CompileWallMS, cpuMS(l.CompileWallMS, l.CPUs), l.CompileMemoryMB
	l.AddressSpaceMB, l.StackMB = 0, 0 // the program's own
	l.Processes, l.FileMB = max(l.Processes, DefaultLimits.Processes), l.DiskMB
	return l
}

// WithoutCompile returns the limits of a program that has no compile step.
func (l Limits) WithoutCompile() Limits {
	l.CompileWallMS, l.CompileMemoryMB = 0, 0
	return l
}

// SandboxMB is the most that the sandbox may hold at any time, MiB, of filled limits.
func (l Limits) SandboxMB() int64 { return max(l.MemoryMB, l.CompileMemoryMB) }

// ofCompile returns maximums with those of the compile step.
func (l Limits) ofCompile() Limits {
	l.CompileWallMS, l.CompileMemoryMB = l.WallMS, l.MemoryMB
	return l
}

// AtMost returns l with every field that is 0 or beyond m taken from m.
func (l Limits) AtMost(m Limits) Limits {
	dst, src := l.fields(), m.fields()
	for i := range dst {
		if *dst[i].value == 0 || *dst[i].value > *src[i].value {
			*dst[i].value = *src[i].value
		}
	}
	if l.CPUs == 0 || l.CPUs > m.CPUs {
		l.CPUs = m.CPUs
	}
	return l
}

// Within returns l with every field set that is 0 and whose default, on this runtime,
// is beyond maximum: a job that asks for nothing must not get more than it may ask for.
func (l Limits) Within(runtime, maximum Limits) Limits {
	filled := l.Filled(runtime)
	maximum = maximum.ofCompile()
	dst, got, most := l.fields(), filled.fields(), maximum.fields()
	for i := range dst {
		if *dst[i].value == 0 && *got[i].value > *most[i].value {
			*dst[i].value = *most[i].value
		}
	}
	if l.CPUs == 0 && filled.CPUs > maximum.CPUs {
		l.CPUs = maximum.CPUs
	}
	return l
}

// Check returns an error for each field that is negative or beyond maximum.
func (l Limits) Check(maximum Limits) []FieldError {
	var errs []FieldError
	maximum = maximum.ofCompile()
	most := maximum.fields()
	for i, f := range l.fields() {
		if *f.value < 0 || *f.value > *most[i].value {
			errs = append(errs, outOfRange("limits."+f.name, *f.value, *most[i].value))
		}
	}
	if !(l.CPUs >= 0 && l.CPUs <= maximum.CPUs) { // written so that NaN fails
		errs = append(errs, outOfRange("limits.cpus", l.CPUs, maximum.CPUs))
	}
	return errs
}

type limitField struct {
	name  string
	value *int64
}

// fields lists the whole-number limits, always in the same order. It is an array because a slice would be garbage,
// several times for each job that is accepted.
func (l *Limits) fields() [15]limitField {
	return [...]limitField{
		{"wall_ms", &l.WallMS},
		{"cpu_ms", &l.CPUMS},
		{"memory_mb", &l.MemoryMB},
		{"compile_wall_ms", &l.CompileWallMS},
		{"compile_memory_mb", &l.CompileMemoryMB},
		{"processes", &l.Processes},
		{"address_space_mb", &l.AddressSpaceMB},
		{"stack_mb", &l.StackMB},
		{"open_files", &l.OpenFiles},
		{"output_kb", &l.OutputKB},
		{"file_mb", &l.FileMB},
		{"disk_mb", &l.DiskMB},
		{"source_kb", &l.SourceKB},
		{"artifacts", &l.Artifacts},
		{"artifact_mb", &l.ArtifactMB},
	}
}

// ByName returns all limits by their names in JSON, 0 for what is not set: int64, and float64 for cpus.
func (l Limits) ByName() map[string]any {
	values := map[string]any{"cpus": l.CPUs}
	for _, f := range l.fields() {
		values[f.name] = *f.value
	}
	return values
}

// without returns l with those fields at 0 that are what d has.
func (l Limits) without(d Limits) Limits {
	dst, src := l.fields(), d.fields()
	for i := range dst {
		if *dst[i].value == *src[i].value {
			*dst[i].value = 0
		}
	}
	if l.CPUs == d.CPUs {
		l.CPUs = 0
	}
	return l
}
