"""Operations on the whole store: retention, status, repair, recoding."""
