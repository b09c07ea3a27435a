package sandbox

import "time"

// SetStrayAge changes for how long Podman may know nothing of a sandbox.
func (p *Podman) SetStrayAge(age time.Duration) { p.strayAge = age }

// Held returns a function that reads what the sandbox whose process is pid holds on the
// host, and one that ends the looking.
func Held(pid int) (held func() (int64, error), done func(), err error) {
	p, err := openProcess(pid)
	if err != nil {
		return nil, nil, err
	}
	return p.memory, p.close, nil
}
