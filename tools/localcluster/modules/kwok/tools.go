//go:build tools

// Package tools pins the commands that the local control plane builds.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
