"""What Apple's compiler refuses and clang takes, refused with the line."""
