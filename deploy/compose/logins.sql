-- A login for each role of roles.sql, with its password from the environment. psql runs it once,
-- when the database is made.
\set ON_ERROR_STOP on
\getenv deploy_password DEPLOY_PASSWORD
\getenv service_password SERVICE_PASSWORD
\getenv reader_password READER_PASSWORD
CREATE ROLE slicewatch_deploy LOGIN PASSWORD :'deploy_password' IN ROLE slicewatch_migrator;
ALTER ROLE slicewatch_deploy SET role = slicewatch_migrator;  -- what it makes is the role's
CREATE ROLE slicewatch_service LOGIN PASSWORD :'service_password' IN ROLE slicewatch_writer;
CREATE ROLE slicewatch_reader LOGIN PASSWORD :'reader_password' IN ROLE slicewatch_reporter;
