-- Who may do what in slicewatch's database. Run it in that database as its owner or a superuser
-- with the right to create roles, before the first `slicewatch db migrate` and again after every
-- one: it may be run any number of times, and takes away what was granted beyond it.
--
--   psql --dbname slicewatch --file roles.sql
--
--   slicewatch_migrator  owns the schema and every table: slicewatch db migrate
--   slicewatch_writer    changes rows, never tables:       slicewatch ingest, serve, run, db
--   slicewatch_reporter  reads what was published:         the tables published_*, nothing else
--
-- Nobody logs in as one of them: logins are made as members (deploy/docs/operations.md).

\set ON_ERROR_STOP on
SET client_min_messages = warning;
BEGIN;

DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY
        ARRAY['slicewatch_migrator', 'slicewatch_writer', 'slicewatch_reporter']
    LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
        END IF;
    END LOOP;
END
$$;

-- An administrator who is no superuser may give away only what he is a member of.
DO $$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        GRANT slicewatch_migrator TO CURRENT_USER;
    END IF;
END
$$;

-- The database is slicewatch's alone: everybody else stays outside.
REVOKE ALL ON DATABASE :"DBNAME" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"DBNAME"
    TO slicewatch_migrator, slicewatch_writer, slicewatch_reporter;
GRANT TEMPORARY ON DATABASE :"DBNAME" TO slicewatch_writer;

ALTER SCHEMA public OWNER TO slicewatch_migrator;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO slicewatch_writer, slicewatch_reporter;

-- Tables that later migrations create are the writer's from the start.
ALTER DEFAULT PRIVILEGES FOR ROLE slicewatch_migrator IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO slicewatch_writer;

-- Tables that are there, whoever made them (a restore, or a migration before this file).
DO $$
DECLARE
    found text;
BEGIN
    FOR found IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
        EXECUTE format('ALTER TABLE public.%I OWNER TO slicewatch_migrator', found);
        EXECUTE format(
            'REVOKE ALL ON public.%I FROM PUBLIC, slicewatch_writer, slicewatch_reporter', found);
        EXECUTE format('GRANT SELECT ON public.%I TO slicewatch_writer', found);
        IF found <> 'alembic_version' THEN  -- the schema's revision is the migrator's alone
            EXECUTE format(
                'GRANT INSERT, UPDATE, DELETE ON public.%I TO slicewatch_writer', found);
        END IF;
        -- By name: a table that is not listed here stays closed.
        IF found IN (
            'published_contract', 'published_limit', 'published_window', 'published_rate',
            'published_calibration'
        ) THEN
            EXECUTE format('GRANT SELECT ON public.%I TO slicewatch_reporter', found);
        END IF;
    END LOOP;
END
$$;

COMMIT;
