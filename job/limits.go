package job

// Limits bound a run. In a [Spec], a field that is 0 or absent has its default.
type Limits struct {
	WallMS     int64   `json:"wall_ms,omitempty" minimum:"0" doc:"Wall-clock time, milliseconds." example:"10000"`
	CPUMS      int64   `json:"cpu_ms,omitempty" minimum:"0" doc:"CPU time of all processes, milliseconds; defaults to wall_ms × cpus."`
	MemoryMB   int64   `json:"memory_mb,omitempty" minimum:"0" doc:"Memory of the whole sandbox, its files included, MiB." example:"256"`
	CPUs       float64 `json:"cpus,omitempty" minimum:"0" doc:"CPU share, where limits are hard; fractions are fine, less than 0.1 counts as 0.1."`
	Processes  int64   `json:"processes,omitempty" minimum:"0" doc:"Processes and threads at once."`
	OpenFiles  int64   `json:"open_files,omitempty" minimum:"0" doc:"Open files of a process."`
	OutputKB   int64   `json:"output_kb,omitempty" minimum:"0" doc:"Each of stdout and stderr, KiB; the job is stopped beyond it."`
	FileMB     int64   `json:"file_mb,omitempty" minimum:"0" doc:"Size of one file that is written, MiB; defaults to disk_mb."`
	DiskMB     int64   `json:"disk_mb,omitempty" minimum:"0" doc:"The job's directory, MiB."`
	SourceKB   int64   `json:"source_kb,omitempty" minimum:"0" doc:"Source, files and stdin together, KiB."`
	Artifacts  int64   `json:"artifacts,omitempty" minimum:"0" doc:"Number of artifacts that are kept."`
	ArtifactMB int64   `json:"artifact_mb,omitempty" minimum:"0" doc:"Size of one artifact, MiB; a larger one is not kept."`
}

// DefaultLimits are those of a job that names none, on a runtime that names none.
var DefaultLimits = Limits{
	WallMS: 10_000, MemoryMB: 256, CPUs: 1, Processes: 64, OpenFiles: 256,
	OutputKB: 1024, DiskMB: 64, SourceKB: 1024, Artifacts: 32, ArtifactMB: 32,
}

// DefaultMaximums are the most a job may ask for, unless the operator says otherwise.
var DefaultMaximums = Limits{
	WallMS: 300_000, CPUMS: 1_200_000, MemoryMB: 2048, CPUs: 4, Processes: 1024, OpenFiles: 4096,
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
// [DefaultLimits], then those that follow from other fields.
func (l Limits) Filled(runtime Limits) Limits {
	l = l.Or(runtime).Or(DefaultLimits)
	if l.CPUMS == 0 {
		l.CPUMS = int64(float64(l.WallMS) * max(l.CPUs, 1))
	}
	if l.FileMB == 0 {
		l.FileMB = l.DiskMB
	}
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

// fields lists the whole-number limits, always in the same order.
func (l *Limits) fields() []limitField {
	return []limitField{
		{"wall_ms", &l.WallMS},
		{"cpu_ms", &l.CPUMS},
		{"memory_mb", &l.MemoryMB},
		{"processes", &l.Processes},
		{"open_files", &l.OpenFiles},
		{"output_kb", &l.OutputKB},
		{"file_mb", &l.FileMB},
		{"disk_mb", &l.DiskMB},
		{"source_kb", &l.SourceKB},
		{"artifacts", &l.Artifacts},
		{"artifact_mb", &l.ArtifactMB},
	}
}
