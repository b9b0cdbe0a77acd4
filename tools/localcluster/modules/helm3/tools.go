//go:build tools

// Package tools pins the commands that the local control plane builds.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
