"""The kernel repository: git objects without a worktree, two commits and one ref move."""
