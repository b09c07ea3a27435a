package record

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
)

const (
	// nameLife is how long a name is kept after it was asked for last.
	nameLife = 7 * 24 * time.Hour
	// mostNames is how many names a tenant may have: at 250 bytes each they take a megabyte.
	mostNames = 4096
)

// NameFile lets a name of the tenant's stand for that content, instead of what it stood for before. It is kept for
// a week after it was asked for last. Beyond 4,096 names, those go that nobody has asked for in the
// longest time.
func (s *Store) NameFile(ctx context.Context, tenant, name, content string) error {
	_, err := s.nameFile(ctx, tenant, name, content)
	return err
}

// FileNamed returns the content that a name of the tenant's stands for; "" for a name that is not known.
func (s *Store) FileNamed(ctx context.Context, tenant, name string) (content string, err error) {
	return s.nameFile(ctx, tenant, name, "")
}

func (s *Store) nameFile(ctx context.Context, tenant, name, content string) (string, error) {
	now, err := nameFileScript.Run(ctx, s.rdb, tenant, script.Args{"name": name, "content": content, "now": s.now()}).Text()
	if err != nil {
		return "", fmt.Errorf("name file: %w", err)
	}
	return now, nil
}
