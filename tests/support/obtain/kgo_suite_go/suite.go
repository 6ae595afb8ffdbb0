// Names the package whose own tests are built, so that go.mod and go.sum pin all that they need.
package kgosuite

import _ "github.com/twmb/franz-go/pkg/kgo"
