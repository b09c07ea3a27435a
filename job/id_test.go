package job

import (
	"strings"
	"testing"
)

func TestIDs(t *testing.T) {
	t.Parallel()
	id := NewID("acme")
	if tenant, ok := TenantOf(id); !ok || tenant != "acme" {
		t.Errorf("got %q %v of %q", tenant, ok, id)
	}
	for _, bad := range []string{
		"", "acme", "acme-", "-" + id[5:], "ACME-" + id[5:], id + "a", id[:len(id)-1], "a}b-" + id[5:], id[:10] + "1" + id[11:],
		strings.Repeat("a", 33) + "-" + id[5:],
	} {
		if tenant, ok := TenantOf(bad); ok {
			t.Errorf("%q passed as a job of %q", bad, tenant)
		}
	}
}

func TestUUIDs(t *testing.T) {
	t.Parallel()
	id := NewID("acme")
	uuid, ok := UUIDOf(id)
	if !ok || len(uuid) != 36 || uuid[14] != '4' || !strings.ContainsRune("89ab", rune(uuid[19])) {
		t.Errorf("got %q, %v of %s, want a UUID of version 4", uuid, ok, id)
	}
	for _, same := range []string{uuid, strings.ToUpper(uuid)} {
		if got, ok := IDOfUUID("acme", same); !ok || got != id {
			t.Errorf("got %q, %v of %s, want %s", got, ok, same, id)
		}
	}
	for _, bad := range []string{"", "acme", uuid[1:], uuid + "0", "g" + uuid[1:], strings.ReplaceAll(uuid, "-", "0"), uuid[:35] + "-", "{" + uuid + "}"} {
		if got, ok := IDOfUUID("acme", bad); ok {
			t.Errorf("%q passed as a UUID, of %s", bad, got)
		}
	}
	if got, ok := UUIDOf("acme-short"); ok {
		t.Errorf("got %q of what is no id", got)
	}
}

func TestIDsOfBatches(t *testing.T) {
	t.Parallel()
	id := NewBatchID("acme")
	if tenant, ok := TenantOfBatch(id); !ok || tenant != "acme" {
		t.Errorf("got %q, %v of %s", tenant, ok, id)
	}
	if _, ok := TenantOf(id); ok {
		t.Errorf("%s is taken for a job", id)
	}
	item := ItemID(id, 0)
	if tenant, ok := TenantOf(item); !ok || tenant != "acme" || item != ItemID(id, 0) || item == ItemID(id, 1) || item == ItemID(NewBatchID("acme"), 0) {
		t.Errorf("got %s for the first job of %s", item, id)
	}
	for _, wrong := range []string{"", "acme", "acme-b-", item, "-b-" + item[5:], "ACME-b-" + item[5:], id + "a", id[:len(id)-1], "acme-b-b-" + item[5:], "a/b" + id} {
		if tenant, ok := TenantOfBatch(wrong); ok {
			t.Errorf("%q is taken for a batch of %q", wrong, tenant)
		}
	}
}

func TestTenantOfToken(t *testing.T) {
	t.Parallel()
	const random = "abcdefghijklmnopqrstuvwxyz234567"
	if tenant, ok := TenantOfToken("gb_acme_" + random); !ok || tenant != "acme" {
		t.Errorf("got %q, %v, want acme", tenant, ok)
	}
	for _, bad := range []string{
		"", "gb_", "gb__" + random, "gb_acme_", "gb_acme_" + random + "a", "gb_acme_" + random[1:], "acme_" + random, "GB_acme_" + random,
		"gb_ACME_" + random, "gb_a}b_" + random, "gb_acme_" + strings.ToUpper(random), "gb_a_b_" + random, "gb_acme_" + random[1:] + "1",
		"gb_" + strings.Repeat("a", 33) + "_" + random, "gb_ABCDEFGHIJKLMNOPQRSTUVWXYZ", // what dev makes
	} {
		if tenant, ok := TenantOfToken(bad); ok {
			t.Errorf("%q passed as a token of %q", bad, tenant)
		}
	}
}

func TestValidEventID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"1-0": true, "1795168800000-12": true, "18446744073709551614-1": true,
		"": false, "-": false, "+": false, "1": false, "1-": false, "-1": false, "1-1-1": false, "+1-1": false, "1-+1": false, "a-1": false,
		"18446744073709551616-0": false, "18446744073709551615-18446744073709551615": false, "1-0\n": false, " 1-0": false, "(1-0": false, "$": false, "1_0-1": false,
	} {
		if got := ValidEventID(id); got != want {
			t.Errorf("%q: got %v, want %v", id, got, want)
		}
	}
}

func FuzzTenantOfBatch(f *testing.F) {
	f.Add("acme-b-mfrggzdfmztwq2lknnwg23tpoa")
	f.Add("acme-mfrggzdfmztwq2lknnwg23tpoa")
	f.Add("1700000000000:acme-b-mfrggzdfmztwq2lknnwg23tpoa")
	f.Fuzz(func(t *testing.T, s string) {
		if tenant, ok := TenantOfBatch(s); ok && (!ValidTenant(tenant) || len(s) != len(tenant)+len("-b-")+idLength || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "") {
			t.Errorf("%q is taken for a batch of %q", s, tenant)
		}
	})
}
