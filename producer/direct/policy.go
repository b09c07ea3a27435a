package direct

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// policies are those of tenants as they were read last: to read one takes longer than to judge a job by it.
type policies struct {
	mu       sync.Mutex
	byTenant map[string]readPolicy
}

type readPolicy struct {
	rules  []job.Rule
	policy policy.Policy
	err    error
}

// maxPolicies bounds how many are remembered.
const maxPolicies = 10_000

// of is the policy of a tenant with these rules.
func (p *policies) of(tenant string, rules []job.Rule) (policy.Policy, error) {
	if len(rules) == 0 {
		return policy.Policy{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.byTenant[tenant]
	if !ok || !slices.Equal(known.rules, rules) {
		known = readPolicy{rules: rules}
		known.policy, known.err = policy.Parse("terms.policy", rules)
		if p.byTenant == nil || len(p.byTenant) >= maxPolicies {
			p.byTenant = map[string]readPolicy{}
		}
		p.byTenant[tenant] = known
	}
	return known.policy, known.err
}

// As returns a Client for somebody with that token, which rules see. Its holder decides about nothing that was submitted with it.
func (c *Client) As(token job.Token) *Client {
	other := c.For(c.tenant)
	other.token = token
	return other
}

// judge decides by the operator's rules, and then by the tenant's, what becomes of a job or session. The verdict says whether it
// is to wait. It fails with job.CodeDenied.
func (c *Client) judge(terms job.Terms, s policy.Subject) (policy.Verdict, error) {
	own, err := c.policies.of(c.tenant, terms.Policy)
	if err != nil { // rules are checked when they are set
		return policy.Verdict{}, &job.Error{Code: job.CodeDenied, Message: "the tenant's rules can't be read, so nothing is let through: " + err.Error()}
	}
	if c.policy.Empty() && own.Empty() {
		return policy.Verdict{}, nil
	}
	s.Tenant, s.Token = c.tenant, cmp.Or(c.token.Label, c.token.ID)
	v := policy.Decide(s, c.policy, own)
	if v.Held() && c.withoutHolds {
		return v, &job.Error{Code: job.CodeDenied, Message: fmt.Sprintf("the rule %s holds it until somebody approves it, and nobody can wait for that here: submit it as a job (POST /v1/jobs)", v.Rule.Name)}
	}
	return v, v.Denied()
}

// judgeCallback decides about the callback of a run or a batch, if there is one, as it is opened. Each of its jobs is judged with it besides. It fails with
// job.CodeDenied.
func (c *Client) judgeCallback(terms job.Terms, kind string, callback *job.Callback, metadata map[string]string) error {
	if callback == nil {
		return nil
	}
	_, err := c.judge(terms, policy.Subject{Kind: kind, Opens: true, Spec: job.Spec{Callback: callback, Metadata: metadata}})
	return err
}

// WithoutHolds returns a Client for somebody who waits for the result with a connection open: what a rule would hold is refused.
func (c *Client) WithoutHolds() *Client {
	other := c.For(c.tenant)
	other.withoutHolds = true
	return other
}

// held is why the job of that id waits for a decision, or nil where it doesn't.
func (c *Client) held(v policy.Verdict, id string, spec []byte) *record.Held {
	if !v.Held() {
		return nil
	}
	return &record.Held{
		Hold: job.Hold{Rule: v.Rule.Name, Message: v.Rule.Message, ExpiresAt: toMS(time.Now().Add(v.Rule.Hold())), InputHash: record.HashInput(id, spec)},
		By:   c.token.ID,
	}
}
